/**
 * Enqueue: one call, one turn (T1.5). The ids are minted here, so that the same call can be repeated after an in-doubt
 * commit and changes nothing (hazard 12); so does the same correlation id.
 */
import { InvalidInput, token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { turnBudgetRow, type TurnBudget } from '../budgets/budgets.js'
import { cardRow, resultFieldsCard, unknownCard, type FieldSpec } from '../cards.js'
import { payloadMaxBytes, plainText, storable } from '../../content.js'
import { traceparentOf } from '../../trace.js'
import { call, type Verdict } from '../../verdict.js'

export interface NewTurn {
  readonly projectId: string
  readonly agentId: string
  /** What to do, in words: becomes a task.instruction card in a context box of its own. */
  readonly instruction?: string
  /** Or a context box that exists already. */
  readonly contextBoxId?: string
  readonly resultFields?: readonly FieldSpec[]
  readonly outputBoxId?: string
  readonly channelId?: string
  readonly correlationId?: string
  /** The inbox row's id, when the caller has one that names this request for ever: asking again with it changes nothing. */
  readonly inboxId?: string
  readonly recursionDepth?: number
  readonly traceparent?: string
  readonly parentStepId?: string
  readonly source?: { readonly agentId: string; readonly agentTurnId?: string; readonly stepId?: string }
  readonly payload?: Readonly<Record<string, unknown>>
  /** What the turn may spend: its own limits, a purse that pays, or both. */
  readonly budget?: TurnBudget
}

export interface Enqueued {
  readonly agentTurnId: string
  readonly inboxId: string
  /** `queued` behind other turns, or `pending` because the agent was idle and is leased; a duplicate says where it is now. */
  readonly status: string
  readonly duplicate: boolean
}

// Far beyond any limit that the house sets; the column holds it.
const depthMax = 1_000_000

type Row = Readonly<Record<string, unknown>> & {
  readonly inbox_id: string
  readonly project_id: string
  readonly agent_id: string
  readonly correlation_id: string | undefined
  readonly budget: { readonly budget_id: string } | undefined
}

/** Checks a turn and gives it its ids. Throws before anything is written. */
export function turnRow(ids: Ids, turn: NewTurn): Row {
  const agentTurnId = ids.next()
  if (turn.instruction !== undefined && turn.contextBoxId !== undefined) {
    throw new InvalidInput('a turn takes an instruction or a context_box_id, not both', {
      code: 'two_contexts',
      hint: 'make a box that packs the other one and holds the instruction',
    })
  }
  const cards = []
  if (turn.instruction !== undefined) {
    cards.push(cardRow(ids, { type: 'task.instruction', role: 'user', content: { text: turn.instruction } }))
  }
  if (turn.resultFields !== undefined) cards.push(cardRow(ids, resultFieldsCard(turn.resultFields)))
  if (cards.length > 0 && turn.contextBoxId !== undefined) {
    throw new InvalidInput('result_fields belong in the context box that is given', {
      code: 'two_contexts',
      hint: 'make the box with a task.result_fields card',
    })
  }
  const box = cards.length > 0 ? { box_id: ids.next(), cards } : undefined
  const budget = turn.budget === undefined ? undefined : turnBudgetRow(ids, turn.budget)
  const payload = {
    ...turn.payload,
    context_box_id: box?.box_id ?? turn.contextBoxId,
    output_box_id: turn.outputBoxId,
    budget_id: budget?.budget_id,
  }
  storable(payload, 'the payload', payloadMaxBytes)
  const depth = turn.recursionDepth ?? 0
  if (!Number.isInteger(depth) || depth < 0 || depth > depthMax) {
    throw new InvalidInput('recursion_depth must be a whole number from 0', { code: 'invalid_recursion_depth' })
  }
  return {
    inbox_id: optional(turn.inboxId, 'inbox_id') ?? ids.next(),
    agent_turn_id: agentTurnId,
    project_id: token(turn.projectId, 'project'),
    agent_id: token(turn.agentId, 'agent'),
    channel_id: turn.channelId === undefined ? undefined : token(turn.channelId, 'channel'),
    correlation_id: optional(turn.correlationId, 'correlation_id'),
    recursion_depth: depth,
    traceparent: traceparentOf(agentTurnId, turn.traceparent),
    parent_step_id: optional(turn.parentStepId, 'parent_step_id'),
    source_agent_id: optional(turn.source?.agentId, 'source_agent_id'),
    source_agent_turn_id: optional(turn.source?.agentTurnId, 'source_agent_turn_id'),
    source_step_id: optional(turn.source?.stepId, 'source_step_id'),
    payload,
    box,
    given_context_box_id: turn.contextBoxId,
    given_output_box_id: turn.outputBoxId,
    budget,
  }
}

function optional(text: string | undefined, what: string): string | undefined {
  return text === undefined ? undefined : plainText(text, what)
}

/** Puts rows into inboxes and says, row by row, what became of them; the leases that it made are among the verdicts. */
export async function enqueue(
  db: Queryable,
  rows: readonly Row[],
): Promise<{ results: (Enqueued | InvalidInput)[]; verdicts: Verdict[] }> {
  // The same correlation id twice in one batch is one turn asked for twice.
  const firsts = new Map(rows.toReversed().map((row) => [keyOf(row), row]))
  const verb = rows.some((row) => row.budget !== undefined) ? 'enqueue_budgeted' : 'enqueue'
  const verdicts = await call(db, verb, [...firsts.values()].toReversed()).catch(unknownCard)
  // A turn that was put in line and then leased by the same call is told twice: the later word counts.
  const byRow = new Map(verdicts.map((verdict) => [verdict.inbox_id, verdict]))
  const results = rows.map((row) => {
    const first = firsts.get(keyOf(row))!
    const result = enqueued(first, byRow)
    return first === row || result instanceof InvalidInput ? result : { ...result, duplicate: true }
  })
  return { results, verdicts }
}

function keyOf(row: Row): string {
  return row.correlation_id === undefined ? row.inbox_id : `${row.project_id} ${row.agent_id} ${row.correlation_id}`
}

/** What became of one row of a batch. */
function enqueued(row: Row, verdicts: ReadonlyMap<string, Verdict>): Enqueued | InvalidInput {
  const verdict = verdicts.get(row.inbox_id)
  switch (verdict?.what) {
    case 'leased':
      return { agentTurnId: verdict.agent_turn_id, inboxId: verdict.inbox_id, status: 'pending', duplicate: false }
    case 'enqueued':
      return { agentTurnId: verdict.agent_turn_id, inboxId: verdict.inbox_id, status: 'queued', duplicate: false }
    case 'duplicate': {
      const there = verdict.detail as { inbox_id: string; status: string }
      return { agentTurnId: verdict.agent_turn_id, inboxId: there.inbox_id, status: there.status, duplicate: true }
    }
    case 'unknown_agent':
      return new InvalidInput(`there is no agent ${verdict.agent_id} in project ${verdict.project_id}`, {
        code: 'unknown_agent',
        hint: 'add it to the roster first',
      })
    case 'unknown_box':
      return new InvalidInput('the context box or the output box is not there', {
        code: 'unknown_box',
        hint: 'name boxes of the same project; make a context box first (pack other boxes into it), and leave the output box out',
      })
    case 'agent_retired':
      return new InvalidInput(`agent ${verdict.agent_id} is retired and takes no new turns`, { code: 'agent_retired' })
    case 'recursion_depth_exceeded':
      return new InvalidInput('agents have called agents too deeply', {
        code: 'recursion_depth_exceeded',
        hint: 'let one agent do more of the work itself, or raise pmo.max_recursion_depth',
      })
    default:
      throw new Error(`enqueue answered ${verdict?.what ?? 'nothing'} for inbox row ${row.inbox_id}`)
  }
}
