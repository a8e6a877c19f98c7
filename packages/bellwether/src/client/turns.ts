/**
 * Starts a turn, and waits for its end while events report what it does. A lost response or a restarting server costs time, never a
 * second turn; a wait ends at its deadline, whatever the server does.
 */
import { linkAbort, type Clock } from '@bellwether/base'
import type { BodyFor, ProjectEvent, TurnDetail } from '@bellwether/protocol/http'
import { reconnectBackoff, retryUntil } from '../ports/retry.js'
import { responseMs, type Client } from './client.js'

export type NewTurn = BodyFor<'POST /projects/:project/agents/:agent/turns'>

export interface WaitPorts {
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** A restarting server is available again by then. */
const outageMaxMs = 60_000
// The server holds one request this long; then the client sends the next.
const holdSeconds = 30
// A stopping server answers waiting requests at once; the pause limits how often it is called.
const pauseMs = 500

/** Repeats a request until the server has answered it. Requests with the same `idempotencyKey` start one turn. */
function once<T>(
  idempotencyKey: string,
  { clock, signal }: WaitPorts,
  ask: (request: { readonly idempotencyKey: string; readonly signal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const window = { backoff: reconnectBackoff, maxMs: responseMs }
  return retryUntil(window, () => ask({ idempotencyKey, signal }), { clock, signal })
}

export const startTurn = (client: Client, agent: string, body: NewTurn, key: string, ports: WaitPorts) =>
  once(key, ports, (request) =>
    client.ask('POST /projects/:project/agents/:agent/turns', { params: { agent }, body, ...request }),
  )

export type FollowUp = BodyFor<'POST /projects/:project/turns/:turn/continue'>

/** Starts a follow-up of an ended turn. */
export const followUp = (client: Client, turn: string, body: FollowUp, key: string, ports: WaitPorts) =>
  once(key, ports, (request) =>
    client.ask('POST /projects/:project/turns/:turn/continue', { params: { turn }, body, ...request }),
  )

export type Fork = BodyFor<'POST /projects/:project/turns/:turn/fork'>

/** Starts a turn from a step of an ended one. */
export const forkTurn = (client: Client, turn: string, body: Fork, key: string, ports: WaitPorts) =>
  once(key, ports, (request) =>
    client.ask('POST /projects/:project/turns/:turn/fork', { params: { turn }, body, ...request }),
  )

/** The turn, when it has ended or after `wait` seconds. */
export function readTurn(client: Client, turn: string, wait = 0, signal?: AbortSignal): Promise<TurnDetail> {
  const timeoutMs = wait * 1_000 + responseMs
  return client.ask('GET /projects/:project/turns/:turn', { params: { turn }, query: { wait }, timeoutMs, signal })
}

export interface FollowOptions extends WaitPorts {
  /** How long to wait; absent: until the turn ends. */
  readonly withinMs?: number
  /** Called once per event of the turn. */
  readonly onEvent?: (event: ProjectEvent) => void
}

/** The turn when it has ended, or when the time is over. */
export async function followTurn(client: Client, id: string, options: FollowOptions): Promise<TurnDetail> {
  const link = linkAbort(options.signal)
  const reporting = options.onEvent && reportEvents(client, id, options.onEvent, link.signal)
  try {
    return await waitForEnd(client, id, options)
  } finally {
    link.abort()
    await reporting
  }
}

async function waitForEnd(
  client: Client,
  id: string,
  { clock, signal, withinMs = Infinity }: FollowOptions,
): Promise<TurnDetail> {
  const endsMs = clock.monotonicMs() + withinMs
  for (;;) {
    const sentMs = clock.monotonicMs()
    const leftMs = Math.max(0, endsMs - sentMs)
    const seconds = Math.min(holdSeconds, Math.ceil(leftMs / 1_000))
    const window = { backoff: reconnectBackoff, maxMs: Math.min(outageMaxMs, leftMs) }
    const turn = await retryUntil(window, () => readTurn(client, id, seconds, signal), { clock, signal })
    if (turn.ended_at !== null || clock.monotonicMs() >= endsMs) return turn
    if (clock.monotonicMs() - sentMs < pauseMs) await clock.sleep(pauseMs, signal)
  }
}

async function reportEvents(
  client: Client,
  id: string,
  onEvent: (event: ProjectEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  const stream = client.follow('GET /projects/:project/events', { query: { kind: 'task,state,step' }, signal })
  try {
    for await (const { data } of stream) if ('event_id' in data && data.agent_turn_id === id) onEvent(data)
  } catch (error) {
    // The reports stop, the wait continues: it finds the end without events, and throws if the server rejects the key.
    if (!(error instanceof Error)) throw error
  }
}

/** What a turn is doing, in a few words. Contains text of the agent, which a terminal must not get unsanitized. */
export function describeEvent({ kind, payload }: Pick<ProjectEvent, 'kind' | 'payload'>): string {
  const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
  if (kind === 'step') return ['step', text(payload['phase']), text(payload['status'])].filter(Boolean).join(' ')
  if (kind === 'task') return `ended: ${text(payload['status']) ?? 'unknown'}`
  const metadata = (payload['metadata'] ?? {}) as Readonly<Record<string, unknown>>
  const waiting = metadata['waiting_tool_count']
  const count = typeof waiting === 'number' && waiting > 0 ? `waits for ${waiting}` : undefined
  const parts = [payload['status'], metadata['activity'], metadata['current_tool'], count, payload['error']]
  return parts.flatMap((part) => text(part) ?? []).join(' · ')
}

/** The deliverable as text, with the partial work of a fallback; undefined if the turn has none. */
export function deliverableText({ deliverable }: Pick<TurnDetail, 'deliverable'>): string | undefined {
  if (deliverable === null) return undefined
  const { text, fields } = (deliverable.content ?? {}) as { readonly text?: unknown; readonly fields?: unknown }
  const content = typeof text === 'string' ? text : JSON.stringify(fields ?? deliverable.content, null, 2)
  const last = deliverable.fallback?.last_text
  return typeof last !== 'string' || content.includes(last) ? content : `${content}\n\nThe work so far:\n\n${last}`
}
