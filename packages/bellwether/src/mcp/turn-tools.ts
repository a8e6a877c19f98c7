/** Tools for turns: run one, look at it, read what it delivered, stop it; and who could be asked. */
import { z } from 'zod'
import { plain } from '../client/sanitize.js'
import { beginTurn, delivered, doing, followTurn, readTurn, type Turn, type TurnOrder } from '../client/turns.js'
import { answerChars, fitting, pieceOf, shortened } from './bounded.js'
import { tool, type Call, type Said, type Tool } from './tool.js'

const id = z.string().min(1).max(500)
const agentName = z.string().min(1).max(120).describe('the name of an agent, as list_agents tells it')
const turnId = id.describe('the id of a turn, as run_turn gave it')
// A call that nobody ends is ended here; the turn has limits of its own.
const waitMax = 600
// Below the minute after which many clients give up.
const waitDefault = 50
const wait = (fallback: number) =>
  z.number().min(0).max(waitMax).default(fallback).describe(`how many seconds to wait for its end, at most ${waitMax}`)
// How much of a deliverable comes with the turn itself.
const inlineChars = 20_000
// Clients that count silence hear from us before they lose patience.
const stillMs = 10_000

export const turnTools: readonly Tool[] = [
  tool({
    name: 'run_turn',
    title: 'Run a turn',
    description:
      'Gives an agent something to do and waits for what it delivers. The turn goes on when the time is over or the call is cancelled: read it later with read_turn. Every turn ends by itself within its deadline.',
    readOnly: false,
    input: z.strictObject({
      agent: agentName,
      instruction: z.string().min(1).max(1_000_000).describe('what the agent is to do'),
      wait_seconds: wait(waitDefault),
      max_seconds: z.number().int().min(1).max(31_536_000).optional().describe('end the turn after so long'),
      max_tokens: z.number().int().min(1).max(1_000_000_000).optional().describe('end it when it has used so many'),
      result_fields: z
        .array(z.strictObject({ name: z.string().min(1).max(200), description: z.string().max(2_000).optional() }))
        .min(1)
        .max(50)
        .optional()
        .describe('what the deliverable must hold, by name'),
      idempotency_key: z.string().min(1).max(200).optional().describe('the same key again is the same turn'),
      stop_when_cancelled: z.boolean().default(false).describe('stop the turn when this call is cancelled'),
    }),
    run: runTurn,
  }),
  tool({
    name: 'read_turn',
    title: 'Read a turn',
    description:
      'What became of a turn: its state, steps, tools, what the watchdogs did, its children, and what it delivered.',
    readOnly: true,
    input: z.strictObject({ turn: turnId, wait_seconds: wait(0) }),
    run: async ({ turn, wait_seconds: seconds }, call) => stateOf(await waited(call, turn, seconds)),
  }),
  tool({
    name: 'read_deliverable',
    title: 'Read a deliverable',
    description: 'What a turn delivered, also when it is long: piece by piece, by offset.',
    readOnly: true,
    input: z.strictObject({
      turn: turnId,
      offset: z.number().int().min(0).max(1_000_000_000).default(0).describe('at which character to begin'),
      max_chars: z.number().int().min(1).max(answerChars).default(inlineChars),
    }),
    run: async ({ turn, offset, max_chars: chars }, { client, signal }) => {
      const found = await readTurn(client, turn, 0, signal)
      const text = delivered(found)
      if (text === undefined) return { words: `Turn ${turn} has delivered nothing: it is ${standing(found)}.` }
      const piece = pieceOf(text, offset, chars)
      const end = piece.offset + piece.text.length
      const more = piece.next === null ? 'This is the end.' : `Go on with offset ${piece.next}.`
      return { words: `Characters ${piece.offset} to ${end} of ${piece.total}. ${more}`, data: piece.text }
    },
  }),
  tool({
    name: 'stop_turn',
    title: 'Stop a turn',
    description: 'Stops a turn, or takes it out of the line. A turn that has ended stays as it is.',
    readOnly: false,
    input: z.strictObject({ turn: turnId, reason: z.string().min(1).max(2_000).optional() }),
    run: async ({ turn, reason }, { client, signal }) => {
      const body = reason === undefined ? {} : { reason }
      const path = client.of(`/turns/${encodeURIComponent(turn)}/stop`)
      const { status } = await client.ask<{ readonly status: string }>('POST', path, { body, signal })
      return { words: `Turn ${turn}: ${status}.` }
    },
  }),
  tool({
    name: 'list_agents',
    title: 'List agents',
    description: 'The agents that can be given turns, with what each is doing now.',
    readOnly: true,
    input: z.strictObject({
      after: z.string().max(120).optional().describe('go on after this name'),
      limit: z.number().int().min(1).max(500).default(100),
    }),
    run: listAgents,
  }),
]

async function runTurn(
  given: {
    readonly agent: string
    readonly instruction: string
    readonly wait_seconds: number
    readonly max_seconds?: number | undefined
    readonly max_tokens?: number | undefined
    readonly result_fields?: readonly object[] | undefined
    readonly idempotency_key?: string | undefined
    readonly stop_when_cancelled: boolean
  },
  call: Call,
): Promise<Said> {
  const { client } = call
  const { max_seconds: seconds, max_tokens: tokens, result_fields: fields } = given
  const budget = {
    ...(seconds === undefined ? {} : { max_wall_ms: seconds * 1_000 }),
    ...(tokens === undefined ? {} : { max_tokens: tokens }),
  }
  const order: TurnOrder = {
    instruction: given.instruction,
    ...(fields === undefined ? {} : { result_fields: fields }),
    ...(Object.keys(budget).length === 0 ? {} : { budget }),
  }
  const begun = await beginTurn(client, given.agent, order, given.idempotency_key ?? call.ids.next(), call)
  const turn = begun.agent_turn_id
  call.progress(`turn ${turn} is in line`)
  try {
    return stateOf(await waited(call, turn, given.wait_seconds))
  } catch (error) {
    if (call.signal.aborted && given.stop_when_cancelled)
      await client.ask('POST', client.of(`/turns/${encodeURIComponent(turn)}/stop`), { body: { reason: 'cancelled' } })
    throw error
  }
}

/** The turn at its end, or when the time is over; meanwhile whoever waits hears of it. */
async function waited(call: Call, id: string, seconds: number): Promise<Turn> {
  const { client, clock, signal } = call
  if (seconds <= 0) return readTurn(client, id, 0, signal)
  const over = new AbortController()
  const still = (async () => {
    for (;;) {
      await clock.sleep(stillMs, over.signal)
      if (over.signal.aborted) return
      call.progress(`turn ${id} is under way`)
    }
  })()
  try {
    const onEvent = (event: Readonly<Record<string, unknown>>) => call.progress(plain(doing(event)))
    return await followTurn(client, id, { clock, signal, withinMs: seconds * 1_000, onEvent })
  } finally {
    over.abort()
    await still
  }
}

const standing = (turn: Turn) => turn.outcome ?? turn.status

function stateOf(turn: Turn): Said {
  const id = turn.agent_turn_id
  const text = delivered(turn)
  const piece = text === undefined ? undefined : pieceOf(text, 0, inlineChars)
  const next =
    turn.ended_at === null
      ? `It is not over: read_turn with wait_seconds waits for it.`
      : piece !== undefined && piece.next !== null
        ? `Its deliverable has ${piece.total} characters: read_deliverable goes on at offset ${piece.next}.`
        : 'It has ended.'
  const trail = {
    steps: listed(turn.steps, ({ phase, status, started_at, error }) => ({
      phase,
      status,
      started_at,
      error: error ?? undefined,
    })),
    tools: listed(turn.waits, ({ tool_name, wait_status, tool_call_id }) => ({ tool_name, wait_status, tool_call_id })),
    watchdog: listed(turn.interventions, ({ kind, reason, created_at }) => ({ kind, reason, created_at })),
    children: listed(turn.children, ({ agent_turn_id, agent_id, status, outcome }) => ({
      agent_turn_id,
      agent_id,
      status,
      outcome,
    })),
  }
  return {
    words: `Turn ${id}: ${standing(turn)}. ${next}`,
    data: {
      turn: id,
      agent: turn.agent_id,
      state: standing(turn),
      asked_at: turn.created_at,
      ended_at: turn.ended_at,
      error: shortened(turn.error) ?? undefined,
      ...trail,
      deliverable: piece?.text,
    },
  }
}

// The newest of a long trail are what matters.
const trailMax = 30
function listed<T>(items: readonly T[] | undefined, pick: (item: T) => unknown): unknown {
  if (items === undefined || items.length === 0) return undefined
  const shown = items.slice(-trailMax).map(pick)
  const note = items.length > trailMax ? [`(the first ${items.length - trailMax} are left out)`] : []
  return [...note, ...shown.map((one) => shortened(one, 500))]
}

interface Agent {
  readonly agent_id: string
  readonly status: string
  readonly queued: number
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly state: Readonly<Record<string, unknown>> | null
  readonly last_turn?: unknown
}

async function listAgents(
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
  { client, signal }: Call,
): Promise<Said> {
  const query = new URLSearchParams({ limit: String(limit), ...(after === undefined ? {} : { cursor: after }) })
  const path = client.of(`/agents?${query.toString()}`)
  const page = await client.ask<{ readonly agents: readonly Agent[]; readonly cursor: string | null }>('GET', path, {
    signal,
  })
  const { shown, left } = fitting(
    page.agents.map((agent) => ({
      agent: agent.agent_id,
      status: agent.status === 'active' ? (agent.state?.['status'] ?? 'new') : agent.status,
      description: agent.metadata?.['description'],
      activity: agent.state?.['activity'] ?? undefined,
      tool: agent.state?.['current_tool'] ?? undefined,
      turn: agent.state?.['active_agent_turn_id'] ?? undefined,
      in_line: agent.queued,
      last_turn: agent.last_turn ?? undefined,
    })),
  )
  const last = page.agents.at(shown.length - 1)?.agent_id
  const more = left > 0 || page.cursor !== null ? ` There are more: list_agents with after "${last}".` : ''
  return { words: `${shown.length} agents of project ${client.project}.${more}`, data: shown }
}
