/** Tools for turns: run, find, read and stop a turn, read its deliverable and its transcript, and list the agents. */
import { defined } from '@bellwether/base'
import { messageMaxChars, turnStatuses } from '@bellwether/protocol'
import type { Turn, TurnDetail } from '@bellwether/protocol/http'
import { z } from 'zod'
import { plain } from '../client/sanitize.js'
import { deliverableText, describeEvent, followTurn, followUp, forkTurn, readTurn, startTurn } from '../client/turns.js'
import { resultChars, fitting, pieceOf, shortened } from './bounded.js'
import { tool, type Call, type Tool, type ToolReport } from './tool.js'
import { endSequence, entriesMax, transcriptReport } from './transcript-report.js'

const agentName = z.string().min(1).max(120).describe('the name of an agent, from list_agents')
const turnId = z.string().min(1).max(500).describe('the id of a turn, from run_turn or find_turns')
// Ends a call that the client does not end; the turn has its own limits.
const waitMax = 600
// Many clients give up after a minute.
const waitDefault = 50
const wait = (seconds: number) =>
  z.number().min(0).max(waitMax).default(seconds).describe(`how many seconds to wait for its end, at most ${waitMax}`)
// How much of a deliverable is part of the report of its turn.
const inlineChars = 20_000
// Clients that time out on silence get a message before that.
const progressMs = 10_000

const sequence = z.number().int().min(0).max(endSequence)

const lineOf = ({
  agent_turn_id: turn,
  agent_id: agent,
  status,
  error,
  created_at: queued,
  ended_at: ended,
}: Turn) => ({ turn, agent, status, error, queued, ended })

export const turnTools: readonly Tool[] = [
  tool({
    name: 'run_turn',
    title: 'Run a turn',
    description:
      'Runs a turn of an agent and waits for its deliverable. The turn continues if the wait ends or the call is cancelled: read it later with read_turn. Every turn ends by its deadline.',
    readOnly: false,
    input: z.strictObject({
      agent: agentName,
      instruction: z.string().min(1).max(1_000_000).describe('what the agent should do'),
      wait_seconds: wait(waitDefault),
      max_seconds: z.number().int().min(1).max(31_536_000).optional().describe('end the turn after this time'),
      max_tokens: z.number().int().min(1).max(1_000_000_000).optional().describe('end the turn after this many tokens'),
      result_fields: z
        .array(z.strictObject({ name: z.string().min(1).max(200), description: z.string().max(2_000).optional() }))
        .min(1)
        .max(50)
        .optional()
        .describe('the fields that the deliverable must have'),
      session_id: z
        .string()
        .min(1)
        .max(200)
        .optional()
        .describe('the conversation to continue, if the memory of the agent is "session"'),
      idempotency_key: z.string().min(1).max(200).optional().describe('a call with the same key returns the same turn'),
      stop_when_cancelled: z.boolean().default(false).describe('stop the turn if this call is cancelled'),
    }),
    async run(input, call) {
      const { max_seconds: seconds, max_tokens, instruction, result_fields, session_id } = input
      const budget = defined({ max_wall_ms: seconds && seconds * 1_000, max_tokens })
      const body = { instruction, result_fields, session_id, ...(Object.keys(budget).length === 0 ? {} : { budget }) }
      const key = input.idempotency_key ?? call.ids.next()
      const { agent_turn_id: turn } = await startTurn(call.client, input.agent, body, key, call)
      call.progress(`turn ${turn} is queued`)
      try {
        return reportOf(await waitFor(call, turn, input.wait_seconds))
      } catch (error) {
        if (call.signal.aborted && input.stop_when_cancelled) await stop(call, turn, 'cancelled')
        throw error
      }
    },
  }),
  tool({
    name: 'read_turn',
    title: 'Read a turn',
    description: 'Reads a turn: its state, steps, tool calls, interventions of watchdogs, children and deliverable.',
    readOnly: true,
    input: z.strictObject({ turn: turnId, wait_seconds: wait(0) }),
    run: async ({ turn, wait_seconds: seconds }, call) => reportOf(await waitFor(call, turn, seconds)),
  }),
  tool({
    name: 'read_deliverable',
    title: 'Read a deliverable',
    description: 'Reads the deliverable of a turn; a long one in pieces, by offset.',
    readOnly: true,
    input: z.strictObject({
      turn: turnId,
      offset: z.number().int().min(0).max(1_000_000_000).default(0).describe('the first character'),
      max_chars: z.number().int().min(1).max(resultChars).default(inlineChars),
    }),
    run: async ({ turn: id, offset, max_chars: chars }, { client, signal }) => {
      const turn = await readTurn(client, id, 0, signal)
      const text = deliverableText(turn)
      if (text === undefined) return { summary: `Turn ${id} has delivered nothing: its state is ${stateOf(turn)}.` }
      const piece = pieceOf(text, offset, chars)
      const end = piece.offset + piece.text.length
      const more = piece.next === null ? 'This is the end.' : `Continue with offset ${piece.next}.`
      const kind = turn.deliverable?.kind === 'fallback' ? `A fallback (the turn ended as ${stateOf(turn)}). ` : ''
      return { summary: `${kind}Characters ${piece.offset} to ${end} of ${piece.total}. ${more}`, data: piece.text }
    },
  }),
  tool({
    name: 'find_turns',
    title: 'Find turns',
    description:
      'Lists turns, newest first, by status, agent, time, error, cost, or words of the instruction and the deliverable. read_turn reads one of them.',
    readOnly: true,
    input: z.strictObject({
      status: z.enum(turnStatuses).optional(),
      agent: agentName.optional(),
      since: z.iso.datetime({ offset: true }).optional().describe('queued at this time or later'),
      until: z.iso.datetime({ offset: true }).optional().describe('queued before this time'),
      error: z.string().min(1).max(200).optional().describe('the beginning of the error, such as budget_exceeded'),
      min_cost_usd: z.number().positive().max(1_000_000).optional(),
      words: z.string().min(1).max(200).optional().describe('"…" is a phrase, -word excludes a word'),
      cursor: z.string().min(1).max(100).optional(),
      limit: z.number().int().min(1).max(500).default(50),
    }),
    run: async ({ min_cost_usd: dollars, words, ...filter }, { client, signal }) => {
      const micros = dollars === undefined ? undefined : Math.ceil(dollars * 1_000_000)
      const query = { ...filter, text: words, min_cost_micros: micros }
      const { turns, cursor } = await client.ask('GET /projects/:project/turns', { query, signal })
      const { shown } = fitting(turns.map(lineOf))
      const next = (shown.length < turns.length ? turns[shown.length - 1]?.agent_turn_id : cursor) ?? ''
      const more = next === '' ? '' : ` Older turns were not searched yet: find_turns with cursor ${next}.`
      return { summary: `${shown.length} turns.${more}`, data: shown }
    },
  }),
  tool({
    name: 'turn_transcript',
    title: 'Read a transcript',
    description:
      'Reads what the agent of a turn wrote and did: text, thoughts, tool calls with arguments and results, output of programs. Newest part first: continue with before. To follow a running turn, continue with after.',
    readOnly: true,
    input: z.strictObject({
      turn: turnId,
      before: sequence.optional().describe('read the part that ends before this entry'),
      after: sequence.optional().describe('read the part that starts after this entry'),
      max_chars: z.number().int().min(1).max(resultChars).default(inlineChars),
    }),
    run: async ({ turn, before, after, max_chars: chars }, { client, signal }) => {
      if (before !== undefined && after !== undefined)
        return { summary: 'Nothing was read. Give before or after, not both.' }
      const query = { ...(after === undefined ? { before: before ?? endSequence } : { after }), limit: entriesMax }
      const route = 'GET /projects/:project/turns/:turn/transcript'
      const page = await client.ask(route, { params: { turn }, query, signal })
      return transcriptReport(turn, page, after === undefined ? 'end' : 'start', chars)
    },
  }),
  tool({
    name: 'say_to_turn',
    title: 'Send a message to a turn',
    description:
      'Sends a message to a turn that has not ended. Its agent gets it once: a model before its next step, a coding agent through its input or when its program is resumed.',
    readOnly: false,
    input: z.strictObject({
      turn: turnId,
      text: z.string().min(1).max(messageMaxChars),
      now: z.boolean().default(false).describe('interrupt a program that reads no messages while it runs'),
    }),
    run: async ({ turn, text, now }, { client, ids, signal }) => {
      const body = { text, now, message_id: ids.next() }
      const route = 'POST /projects/:project/turns/:turn/messages'
      const { seq, status } = await client.ask(route, { params: { turn }, body, signal })
      return { summary: `Message ${seq} to turn ${turn}: ${status}.` }
    },
  }),
  tool({
    name: 'continue_turn',
    title: 'Continue a turn',
    description:
      'Runs a follow-up of an ended turn with the same agent and session, and waits for its deliverable. A coding agent resumes its session.',
    readOnly: false,
    input: z.strictObject({
      turn: turnId,
      instruction: z.string().min(1).max(1_000_000).describe('what the agent should do next'),
      wait_seconds: wait(waitDefault),
      idempotency_key: z.string().min(1).max(200).optional().describe('a call with the same key returns the same turn'),
    }),
    async run({ turn, instruction, wait_seconds: seconds, idempotency_key: given }, call) {
      const key = given ?? call.ids.next()
      const { agent_turn_id: next } = await followUp(call.client, turn, { instruction }, key, call)
      call.progress(`turn ${next} is queued`)
      return reportOf(await waitFor(call, next, seconds))
    },
  }),
  tool({
    name: 'replay_turn',
    title: 'Replay a turn',
    description:
      'Makes the decisions of an ended turn again from its stored cards, without models and tools, and names the first step that differs. Also lists the steps that fork_turn takes.',
    readOnly: true,
    input: z.strictObject({ turn: turnId }),
    async run({ turn }, { client, signal }) {
      const report = await client.ask('GET /projects/:project/turns/:turn/replay', { params: { turn }, signal })
      return {
        summary: `The replay of turn ${turn} is ${report.result === 'exact' ? 'exact' : 'different'}.`,
        data: report,
      }
    },
  }),
  tool({
    name: 'fork_turn',
    title: 'Fork a turn',
    description:
      'Starts a new turn with the cards of an ended one up to a step, and waits for its deliverable. The ended turn does not change.',
    readOnly: false,
    input: z.strictObject({
      turn: turnId,
      at: z.number().int().min(0).max(1_000_000).describe('the last step that is kept; 0 keeps none'),
      instruction: z.string().min(1).max(1_000_000).optional().describe('replaces the instruction'),
      message: z.string().min(1).max(messageMaxChars).optional().describe('the agent gets it before its next step'),
      wait_seconds: wait(waitDefault),
      idempotency_key: z.string().min(1).max(200).optional().describe('a call with the same key returns the same turn'),
    }),
    async run({ turn, at, instruction, message, wait_seconds: seconds, idempotency_key: given }, call) {
      const edit = defined({ instruction, message })
      const body = { at, ...(Object.keys(edit).length > 0 && { edit }) }
      const { agent_turn_id: next } = await forkTurn(call.client, turn, body, given ?? call.ids.next(), call)
      call.progress(`turn ${next} is queued`)
      return reportOf(await waitFor(call, next, seconds))
    },
  }),
  tool({
    name: 'stop_turn',
    title: 'Stop a turn',
    description: 'Stops an active turn, or cancels a queued one. An ended turn does not change.',
    readOnly: false,
    input: z.strictObject({ turn: turnId, reason: z.string().min(1).max(2_000).optional() }),
    run: async ({ turn, reason }, call) => {
      const { status } = await stop(call, turn, reason, call.signal)
      return { summary: `Turn ${turn}: ${status}.` }
    },
  }),
  tool({
    name: 'list_agents',
    title: 'List agents',
    description: 'Lists the agents that can run turns, each with its current activity.',
    readOnly: true,
    input: z.strictObject({
      after: z.string().max(120).optional().describe('continue after this name'),
      limit: z.number().int().min(1).max(500).default(100),
    }),
    run: async ({ after: cursor, limit }, { client, signal }) => {
      const page = await client.ask('GET /projects/:project/agents', { query: { cursor, limit }, signal })
      const { shown, left } = fitting(
        page.agents.map(({ agent_id: agent, status, state, metadata, queued, last_turn }) => ({
          agent,
          status: status === 'active' ? (state?.status ?? 'new') : status,
          description: metadata['description'],
          activity: state?.activity ?? undefined,
          tool: state?.current_tool ?? undefined,
          turn: state?.active_agent_turn_id ?? undefined,
          queued,
          last_turn: last_turn ?? undefined,
        })),
      )
      const last = page.agents.at(shown.length - 1)?.agent_id
      const more = left > 0 || page.cursor !== null ? ` There are more: list_agents with after "${last}".` : ''
      return { summary: `${shown.length} agents of project ${client.project}.${more}`, data: shown }
    },
  }),
]

const stop = ({ client }: Call, turn: string, reason: string | undefined, signal?: AbortSignal) =>
  client.ask('POST /projects/:project/turns/:turn/stop', { params: { turn }, body: { reason }, signal })

/** The turn when it has ended, or when the time is over. Sends progress messages in the meantime. */
async function waitFor(call: Call, id: string, seconds: number): Promise<TurnDetail> {
  const { client, clock, signal } = call
  if (seconds <= 0) return readTurn(client, id, 0, signal)
  const waiting = new AbortController()
  const reporting = (async () => {
    for (;;) {
      await clock.sleep(progressMs, waiting.signal)
      if (waiting.signal.aborted) return
      call.progress(`turn ${id} has not ended`)
    }
  })()
  try {
    return await followTurn(client, id, {
      clock,
      signal,
      withinMs: seconds * 1_000,
      onEvent: (event) => call.progress(plain(describeEvent(event))),
    })
  } finally {
    waiting.abort()
    await reporting
  }
}

const stateOf = (turn: TurnDetail) => turn.outcome ?? turn.status

function reportOf(turn: TurnDetail): ToolReport {
  const id = turn.agent_turn_id
  const text = deliverableText(turn)
  const piece = text === undefined ? undefined : pieceOf(text, 0, inlineChars)
  const next =
    turn.ended_at === null
      ? 'It has not ended: read_turn with wait_seconds waits for it.'
      : piece !== undefined && piece.next !== null
        ? `Its deliverable has ${piece.total} characters: read_deliverable continues at offset ${piece.next}.`
        : 'It has ended.'
  return {
    summary: `Turn ${id}: ${stateOf(turn)}. ${next}${turn.deliverable?.kind === 'fallback' ? ' Its deliverable is a fallback: the reason and the work so far, not a result.' : ''}`,
    data: {
      turn: id,
      agent: turn.agent_id,
      state: stateOf(turn),
      queued_at: turn.created_at,
      ended_at: turn.ended_at,
      error: shortened(turn.error) ?? undefined,
      steps: newest(turn.steps, ({ phase, status, started_at, error }) => ({
        phase,
        status,
        started_at,
        error: error ?? undefined,
      })),
      tools: newest(turn.waits, ({ tool_name, wait_status, tool_call_id }) => ({
        tool_name,
        wait_status,
        tool_call_id,
      })),
      watchdog: newest(turn.interventions, ({ kind, reason, created_at }) => ({ kind, reason, created_at })),
      children: newest(turn.children, ({ agent_turn_id, agent_id, status, outcome }) => ({
        agent_turn_id,
        agent_id,
        status,
        outcome,
      })),
      deliverable_kind: turn.deliverable?.kind,
      fallback: turn.deliverable?.fallback === null ? undefined : shortened(turn.deliverable?.fallback),
      deliverable: piece?.text,
    },
  }
}

const newestMax = 30
/** The last items of a list, shortened; undefined if there are none. */
function newest<T>(items: readonly T[], pick: (item: T) => unknown): unknown {
  if (items.length === 0) return undefined
  const shown = items.slice(-newestMax).map((item) => shortened(pick(item), 500))
  return items.length > newestMax ? [`(the first ${items.length - newestMax} are left out)`, ...shown] : shown
}
