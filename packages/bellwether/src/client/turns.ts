/**
 * Turns as a client handles them: begin one, read one, wait for its end and hear meanwhile what it does. Always: a lost answer or a
 * server that restarts costs patience, never a second turn; a wait ends at its time, whatever the server does.
 */
import type { Clock } from '@bellwether/base'
import { retryUntil, backoffMs, reconnectBackoff } from '../ports/retry.js'
import { answerMs, type Client } from './client.js'
import type { ServerEvent } from './events.js'

export interface Turn {
  readonly agent_turn_id: string
  readonly agent_id: string
  readonly status: string
  readonly outcome: string | null
  readonly error: string | null
  readonly created_at: string
  readonly started_at: string | null
  readonly ended_at: string | null
  readonly deliverable?: { readonly content: unknown; readonly created_at?: string } | null
  readonly steps?: readonly Step[]
  readonly waits?: readonly Wait[]
  readonly interventions?: readonly {
    readonly kind: string
    readonly reason: string | null
    readonly created_at: string
  }[]
  readonly children?: readonly Kin[]
  readonly parent?: Kin | null
  readonly usage?: { readonly total_tokens?: number | null; readonly cost_micros?: number | null } | null
  readonly trace_id?: string | null
}

export interface Kin {
  readonly agent_turn_id: string
  readonly agent_id: string
  readonly status?: string
  readonly outcome?: string | null
}

export interface Step {
  readonly step_id: string
  readonly phase: string
  readonly status: string
  readonly started_at: string
  readonly error?: string | null
}

export interface Wait {
  readonly tool_name: string
  readonly tool_call_id: string
  readonly wait_status: string
}

export interface TurnOrder {
  readonly instruction: string
  readonly result_fields?: readonly object[]
  readonly budget?: { readonly max_tokens?: number; readonly max_cost_micros?: number; readonly max_wall_ms?: number }
}

export interface WaitPorts {
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** A server that restarts is back by then. */
const awayMaxMs = 60_000
// The server holds a question this long; then we ask again.
const holdSeconds = 30
// A server that is stopping answers waits at once: it is not asked again at once.
const breathMs = 500

/** The same `idempotencyKey` is the same turn, however often it is asked for. */
export async function beginTurn(
  client: Client,
  agent: string,
  order: TurnOrder,
  idempotencyKey: string,
  ports: WaitPorts,
): Promise<{ readonly agent_turn_id: string; readonly status: string }> {
  const path = client.of(`/agents/${encodeURIComponent(agent)}/turns`)
  const asking = { body: order, idempotencyKey, signal: ports.signal }
  return retryUntil({ backoff: reconnectBackoff, maxMs: answerMs }, () => client.ask('POST', path, asking), ports)
}

export function readTurn(client: Client, id: string, seconds = 0, signal?: AbortSignal): Promise<Turn> {
  const path = client.of(`/turns/${encodeURIComponent(id)}?wait=${seconds}`)
  const timeoutMs = seconds * 1_000 + answerMs
  return client.ask<Turn>('GET', path, { timeoutMs, ...(signal === undefined ? {} : { signal }) })
}

export interface Following extends WaitPorts {
  /** How long to wait; absent: until it ends. */
  readonly withinMs?: number
  /** Told what the turn does, each event once. */
  readonly onEvent?: (event: ServerEvent['data']) => void
}

/** The turn as it stands when it has ended, or when the time is over. */
export async function followTurn(client: Client, id: string, following: Following): Promise<Turn> {
  const over = new AbortController()
  const stop = () => over.abort()
  following.signal.addEventListener('abort', stop, { once: true })
  if (following.signal.aborted) stop()
  const { onEvent } = following
  const telling =
    onEvent === undefined ? undefined : tellEvents(client, id, onEvent, { ...following, signal: over.signal })
  try {
    return await endOf(client, id, following)
  } finally {
    following.signal.removeEventListener('abort', stop)
    stop()
    await telling
  }
}

async function endOf(client: Client, id: string, { clock, signal, withinMs = Infinity }: Following): Promise<Turn> {
  const endsMs = clock.monotonicMs() + withinMs
  for (;;) {
    const askedMs = clock.monotonicMs()
    const seconds = Math.max(0, Math.min(holdSeconds, Math.ceil((endsMs - askedMs) / 1_000)))
    const patience = { backoff: reconnectBackoff, maxMs: Math.min(awayMaxMs, Math.max(0, endsMs - askedMs)) }
    const turn = await retryUntil(patience, () => readTurn(client, id, seconds, signal), { clock, signal })
    if (turn.ended_at !== null || clock.monotonicMs() >= endsMs) return turn
    if (clock.monotonicMs() - askedMs < breathMs) await clock.sleep(breathMs, signal)
  }
}

/** Goes on where it was cut. Events are told for people to look at: the end is found without them. */
async function tellEvents(
  client: Client,
  id: string,
  onEvent: (event: ServerEvent['data']) => void,
  { clock, signal }: WaitPorts,
): Promise<void> {
  let last: string | undefined
  let failures = 0
  while (!signal.aborted) {
    try {
      for await (const event of client.follow(client.of('/events?kind=task,state,step'), signal, last)) {
        failures = 0
        last = event.id ?? last
        if (event.data['agent_turn_id'] === id) onEvent(event.data)
      }
    } catch (error) {
      // Whoever waits for the end hears of what is wrong; this is only the commentary.
      if (signal.aborted || !(error instanceof Error)) return
    }
    failures += 1
    await clock.sleep(backoffMs({ backoff: reconnectBackoff }, failures), signal)
  }
}

/** What a turn is doing, in a few words, from one of its events. Holds words of the agent: not for a terminal as it stands. */
export function doing(event: ServerEvent['data']): string {
  const payload = (event['payload'] ?? {}) as Readonly<Record<string, unknown>>
  const {
    activity,
    current_tool: tool,
    waiting_tool_count: waiting,
  } = (payload['metadata'] ?? {}) as Record<string, unknown>
  const word = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
  if (event['kind'] === 'step')
    return ['step', word(payload['phase']), word(payload['status'])].filter(Boolean).join(' ')
  if (event['kind'] === 'task') return `ended: ${word(payload['status']) ?? 'unknown'}`
  const count = typeof waiting === 'number' && waiting > 0 ? `waits for ${waiting}` : undefined
  return [word(payload['status']), word(activity), word(tool), count, word(payload['error'])]
    .filter(Boolean)
    .join(' · ')
}

/** What a turn delivered, as text. */
export function delivered(turn: Turn): string | undefined {
  if (turn.deliverable === undefined || turn.deliverable === null) return undefined
  const { content } = turn.deliverable
  const { text, fields } = (content ?? {}) as { readonly text?: unknown; readonly fields?: unknown }
  return typeof text === 'string' ? text : JSON.stringify(fields ?? content, null, 2)
}
