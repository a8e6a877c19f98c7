/**
 * Checks rings that are sent or received, for every adapter. Received data is not trusted: a payload that is not an object
 * becomes an empty one, and an invalid traceparent is dropped. Neither an invalid ring nor a throwing listener reaches the
 * caller.
 */
import { type Log, objectOf } from '@bellwether/base'
import { InvalidInput, matches } from '@bellwether/protocol'
import type { Bell, Ring } from './bell.js'

/** The state of a bell; the counts only grow. */
export interface BellStatus {
  readonly connected: boolean
  /** False while rings are known not to arrive; workers then find work by polling. */
  readonly healthy: boolean
  readonly sent: number
  /** Not sent, because a waiting ring wakes the same listeners. */
  readonly coalesced: number
  /** Rejected before sending: full queue, no connection, invalid subject. */
  readonly dropped: number
  /** Lost while being sent. */
  readonly failed: number
  /** Round trips to the server, probes included. */
  readonly trips: number
}

export interface MonitoredBell extends Bell {
  status(): BellStatus
}

export interface Listener {
  readonly pattern: string
  readonly onRing: (ring: Ring | undefined) => void
}

// PostgreSQL limits a notify payload to less than 8,000 bytes.
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
  throw new InvalidInput(`Invalid subject pattern ${JSON.stringify(pattern)}`, {
    code: 'invalid_subject',
    hint: 'Join tokens with dots; use * for one token and > for the rest.',
  })
}

/** The payload as JSON, or `{}` if it is too large or not JSON: a ring without a payload still wakes. */
export function payloadText(ring: Ring, log: Log): string {
  try {
    const text = JSON.stringify(ring.payload)
    return Buffer.byteLength(text) <= messageMaxBytes ? text : '{}'
  } catch (error) {
    log.warn({ err: error, subject: ring.subject }, 'ring payload is not JSON, ringing without it')
    return '{}'
  }
}

export function makeRing(subject: string, payload: unknown, traceparent: unknown): Ring {
  const ring = { subject, payload: objectOf(payload) }
  return isTraceparent(traceparent) ? { ...ring, traceparent } : ring
}

/** Calls one listener; if it throws, the error is logged and the other listeners still run. */
export function notifyListener(listener: Listener, ring: Ring | undefined, log: Log): void {
  if (ring !== undefined && !matches(listener.pattern, ring.subject)) return
  try {
    listener.onRing(ring)
  } catch (error) {
    log.error({ err: error, pattern: listener.pattern }, 'bell listener threw an error')
  }
}
