/**
 * Rings on their way in and out, the same for every adapter. Always: what others sent is never trusted (a payload that is
 * not an object reads as an empty one, a bad traceparent as none), what we send is bounded, and neither an unfit ring nor
 * a listener that throws reaches the caller. Carrying rings is left to the adapters.
 */
import type { Log } from '@bellwether/base'
import { InvalidInput, matches } from '@bellwether/protocol'
import type { Bell, Ring } from './bell.js'

/** How a bell is doing; the counts only grow. */
export interface BellStatus {
  readonly connected: boolean
  /** False while rings are known not to arrive: workers then live by polling. */
  readonly healthy: boolean
  readonly sent: number
  /** Refused before sending: full queue, no connection, unfit subject. */
  readonly dropped: number
  /** Lost while being sent. */
  readonly failed: number
  /** Round trips made for them, probes included. */
  readonly trips: number
}

export interface MonitoredBell extends Bell {
  status(): BellStatus
}

export interface Listener {
  readonly pattern: string
  readonly onRing: (ring: Ring | undefined) => void
}

// A notify payload must stay below 8,000 bytes; the rest is room for the server's own accounting.
export const messageMaxBytes = 7_900

const subjectPattern = /^[^\s.*>]+(\.[^\s.*>]+)*$/
const listenPattern = /^[^\s.]+(\.[^\s.]+)*$/
const traceparentPattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

export function isSubject(text: string): boolean {
  return subjectPattern.test(text) && Buffer.byteLength(text) <= 1_024
}

export function isTraceparent(text: unknown): text is string {
  return typeof text === 'string' && traceparentPattern.test(text)
}

export function checkPattern(pattern: string): void {
  if (listenPattern.test(pattern)) return
  throw new InvalidInput(`${JSON.stringify(pattern)} is not a subject pattern`, {
    code: 'invalid_subject',
    hint: 'tokens joined by dots; * stands for one token, > for the rest',
  })
}

/** The payload as JSON, or `{}` when it is too large or cannot be written: the bell only wakes. */
export function payloadText(ring: Ring, log: Log): string {
  try {
    const text = JSON.stringify(ring.payload)
    return Buffer.byteLength(text) <= messageMaxBytes ? text : '{}'
  } catch (error) {
    log.warn({ err: error, subject: ring.subject }, 'a ring has a payload that is not JSON; ringing without it')
    return '{}'
  }
}

export function payloadFrom(value: unknown): Ring['payload'] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {}
  return value as Ring['payload']
}

export function makeRing(subject: string, payload: unknown, traceparent: unknown): Ring {
  const ring = { subject, payload: payloadFrom(payload) }
  return isTraceparent(traceparent) ? { ...ring, traceparent } : ring
}

/** `undefined` when the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    // Anyone may ring: text that is not JSON is expected, and carries nothing.
    return undefined
  }
}

/** Calls one listener; what it throws is its own bug and must not stop the others. */
export function notifyListener(listener: Listener, ring: Ring | undefined, log: Log): void {
  if (ring !== undefined && !matches(listener.pattern, ring.subject)) return
  try {
    listener.onRing(ring)
  } catch (error) {
    log.error({ err: error, pattern: listener.pattern }, 'a listener of the bell threw')
  }
}
