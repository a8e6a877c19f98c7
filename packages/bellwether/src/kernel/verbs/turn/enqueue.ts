/**
 * Enqueue: one call creates one turn (T1.5). The ids are created here, so that repeating a call after an in-doubt commit changes nothing
 * (hazard 12); a repeated correlation id changes nothing either.
 */
import { InvalidInput, token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { turnBudgetRow, type TurnBudget } from '../budgets/budgets.js'
import { cardRow, resultFieldsCard, cardProblem, type FieldSpec } from '../cards.js'
import { payloadMaxBytes, plainText, storable } from '../../content.js'
import { checkTraceparent } from '../../trace.js'
import { column, jsonColumn } from '../../columns.js'
import { callVerb, type Verdict } from '../../verdict.js'
import { claimedOf, type Claimant, type Claimed, type ClaimRow } from './claim.js'

export interface NewTurn {
  readonly projectId: string
  readonly agentId: string
  /** The task as text; it becomes a task.instruction card in a new context box. */
  readonly instruction?: string
  /** An existing context box, instead of an instruction. */
  readonly contextBoxId?: string
  readonly resultFields?: readonly FieldSpec[]
  readonly outputBoxId?: string
  readonly channelId?: string
  readonly correlationId?: string
  /** The conversation that the turn belongs to. An agent with memory `session` knows its earlier turns (T9.3). */
  readonly sessionId?: string
  /** The inbox row's id, if the caller has a permanent id for this request: repeating the call with it changes nothing. */
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
  /** `queued` behind other turns, or `pending` if the idle agent was leased at once; for a duplicate, its current status. */
  readonly status: string
  readonly duplicate: boolean
}

// Far above any configured limit, and small enough for the column.
const depthMax = 1_000_000

/** `all_leased`: all turns of the call were leased; one per place to ring. */
export type EnqueueVerdict =
  | Verdict<'all_leased'>
  | Verdict<'duplicate', { readonly inbox_id: string; readonly status: string }>
  | Verdict<'enqueued' | 'leased' | 'unknown_agent' | 'recursion_depth_exceeded' | 'agent_retired' | 'unknown_box'>

/** The columns of `state.new_turn`, in its order, with their types. */
const newTurn = {
  inbox_id: 'text',
  agent_turn_id: 'text',
  project_id: 'text',
  agent_id: 'text',
  channel_id: 'text',
  correlation_id: 'text',
  recursion_depth: 'int',
  traceparent: 'text',
  parent_step_id: 'text',
  source_agent_id: 'text',
  source_agent_turn_id: 'text',
  source_step_id: 'text',
  payload: 'jsonb',
  box: 'jsonb',
  given_context_box_id: 'text',
  given_output_box_id: 'text',
} as const
const columnNames = Object.keys(newTurn) as (keyof typeof newTurn)[]

type Row = Readonly<Record<keyof typeof newTurn, string | number | undefined>> & {
  readonly inbox_id: string
  readonly agent_turn_id: string
  readonly project_id: string
  readonly agent_id: string
  readonly correlation_id: string | undefined
  readonly budget: { readonly budget_id: string } | undefined
}

const turnsOfColumns = `array(select row(${columnNames.map((name) => `x.${name}`).join(', ')})::state.new_turn
  from unnest(${Object.values(newTurn)
    .map((type, at) => `$${at + 1}::${type}[]`)
    .join(', ')}) as x (${columnNames.join(', ')}))`

/** Checks a turn and creates its ids. Throws InvalidInput before anything is written. */
export function turnRow(ids: Ids, turn: NewTurn): Row {
  const agentTurnId = ids.next()
  if (turn.instruction !== undefined && turn.contextBoxId !== undefined) {
    throw new InvalidInput('A turn takes either "instruction" or "context_box_id", not both', {
      code: 'two_contexts',
      hint: 'create a box that packs the other box and contains the instruction',
    })
  }
  const cards = []
  if (turn.instruction !== undefined) {
    cards.push(cardRow(ids, { type: 'task.instruction', role: 'user', content: { text: turn.instruction } }))
  }
  if (turn.resultFields !== undefined) cards.push(cardRow(ids, resultFieldsCard(turn.resultFields)))
  if (cards.length > 0 && turn.contextBoxId !== undefined) {
    throw new InvalidInput('A turn takes either "result_fields" or "context_box_id", not both', {
      code: 'two_contexts',
      hint: 'create the context box with a task.result_fields card',
    })
  }
  const box = cards.length > 0 ? { box_id: ids.next(), cards } : undefined
  const budget = turn.budget === undefined ? undefined : turnBudgetRow(ids, turn.budget)
  const payload = withPointers(turn.payload, {
    context_box_id: box?.box_id ?? turn.contextBoxId,
    output_box_id: turn.outputBoxId,
    budget_id: budget?.budget_id,
    session_id: optional(turn.sessionId, 'session_id'),
  })
  const depth = turn.recursionDepth ?? 0
  if (!Number.isInteger(depth) || depth < 0 || depth > depthMax) {
    throw new InvalidInput(`"recursion_depth" must be a whole number from 0 to ${depthMax}`, {
      code: 'invalid_recursion_depth',
    })
  }
  return {
    inbox_id: optional(turn.inboxId, 'inbox_id') ?? ids.next(),
    agent_turn_id: agentTurnId,
    project_id: token(turn.projectId, 'project'),
    agent_id: token(turn.agentId, 'agent'),
    channel_id: turn.channelId === undefined ? undefined : token(turn.channelId, 'channel'),
    correlation_id: optional(turn.correlationId, 'correlation_id'),
    recursion_depth: depth,
    traceparent: checkTraceparent(turn.traceparent),
    parent_step_id: optional(turn.parentStepId, 'parent_step_id'),
    source_agent_id: optional(turn.source?.agentId, 'source_agent_id'),
    source_agent_turn_id: optional(turn.source?.agentTurnId, 'source_agent_turn_id'),
    source_step_id: optional(turn.source?.stepId, 'source_step_id'),
    payload: storable(payload, 'the payload', payloadMaxBytes),
    box: box === undefined ? undefined : JSON.stringify(box),
    given_context_box_id: turn.contextBoxId,
    given_output_box_id: turn.outputBoxId,
    budget,
  }
}

interface Pointers {
  readonly context_box_id: string | undefined
  readonly output_box_id: string | undefined
  readonly budget_id: string | undefined
  readonly session_id: string | undefined
}

/** The payload with the pointers of the turn. A caller's payload never sets one of them. */
function withPointers(payload: NewTurn['payload'], pointers: Pointers): object {
  const isPlain = typeof payload === 'object' && Object.getPrototypeOf(payload) === Object.prototype
  for (const name in pointers)
    if (!isPlain || name in payload || pointers[name as keyof Pointers] !== undefined)
      return { ...payload, ...pointers }
  // Hot path: most turns have none, and a copy costs more than the check.
  return payload ?? {}
}

function optional(text: string | undefined, what: string): string | undefined {
  return text === undefined ? undefined : plainText(text, what)
}

export interface EnqueuedRows {
  /** One per row, in their order. */
  readonly results: (Enqueued | InvalidInput)[]
  /** They include the new leases. */
  readonly verdicts: readonly EnqueueVerdict[]
  /** What the claimant took in the same transaction. Undefined if it did not claim, because no new lease was for its target. */
  readonly claimed: Claimed | undefined
}

/** Enqueues rows. With a claimant, the same transaction claims for it. */
export async function enqueue(db: Queryable, rows: readonly Row[], claimant?: Claimant): Promise<EnqueuedRows> {
  // The same correlation id twice in one batch is one turn.
  const firsts = new Map<string, Row>()
  for (const row of rows) {
    const key = keyOf(row)
    if (!firsts.has(key)) firsts.set(key, row)
  }
  const distinct = firsts.size === rows.length ? rows : [...firsts.values()]
  const { verdicts, claimed } = await callEnqueue(db, distinct, claimant).catch(cardProblem)
  const resultOf = verdicts[0]?.what === 'all_leased' ? leased : byVerdict(verdicts)
  const results = rows.map((row) => {
    const first = firsts.get(keyOf(row))!
    const result = resultOf(first)
    return first === row || result instanceof InvalidInput ? result : { ...result, duplicate: true }
  })
  return { results, verdicts, claimed }
}

const leased = (row: Row): Enqueued => ({
  agentTurnId: row.agent_turn_id,
  inboxId: row.inbox_id,
  status: 'pending',
  duplicate: false,
})

function byVerdict(verdicts: readonly EnqueueVerdict[]): (row: Row) => Enqueued | InvalidInput {
  // A turn that the call first enqueued and then leased has two verdicts: the later one counts.
  const byRow = new Map<string, EnqueueVerdict>()
  for (const verdict of verdicts) byRow.set(verdict.inbox_id, verdict)
  return (row) => enqueued(row, byRow)
}

async function callEnqueue(
  db: Queryable,
  rows: readonly Row[],
  claimant: Claimant | undefined,
): Promise<Pick<EnqueuedRows, 'verdicts' | 'claimed'>> {
  const columns = columnNames.map((name) =>
    newTurn[name] === 'jsonb'
      ? jsonColumn(rows, (row) => row[name] as string | undefined)
      : column(rows, (row) => row[name]),
  )
  const budgets = rows.filter((row) => row.budget !== undefined)
  if (budgets.length > 0) {
    const text = `select * from state.enqueue_budgeted(${turnsOfColumns}, $${columns.length + 1}::json)`
    const values = [...columns, JSON.stringify(budgets.map(budgetItem))]
    return { verdicts: await callVerb(db, { name: 'bw_enqueue_budgeted', text, values }), claimed: undefined }
  }
  if (claimant !== undefined) {
    try {
      return await callEnqueueAndClaim(db, columns, claimant)
    } catch (error) {
      // The claim met a row that another program changes. The enqueue alone succeeds, and the worker claims again.
      if (!(error instanceof Error && 'code' in error && error.code === serializationFailure)) throw error
    }
  }
  const text = `select * from state.enqueue(${turnsOfColumns}, true)`
  return { verdicts: await callVerb(db, { name: 'bw_enqueue', text, values: columns }), claimed: undefined }
}

const serializationFailure = '40001'
const claimPlaces = [1, 2, 3, 4].map((at) => `$${columnNames.length + at}`).join(', ')

async function callEnqueueAndClaim(
  db: Queryable,
  columns: readonly (string | null)[],
  { workerTarget, workerId, max, resumeLeaseSeconds }: Claimant,
): Promise<Pick<EnqueuedRows, 'verdicts' | 'claimed'>> {
  const rows = await callVerb<EnqueueVerdict | Verdict<'claimed'> | ClaimRow>(db, {
    name: 'bw_enqueue_and_claim',
    text: `select * from state.enqueue_and_claim(${turnsOfColumns}, ${claimPlaces})`,
    values: [...columns, workerTarget, workerId, max, resumeLeaseSeconds],
  })
  const end = rows.findIndex((row) => row.what === 'claimed')
  if (end === -1) return { verdicts: rows as EnqueueVerdict[], claimed: undefined }
  return { verdicts: rows.slice(0, end) as EnqueueVerdict[], claimed: claimedOf(rows.slice(end + 1) as ClaimRow[]) }
}

const budgetItem = ({ inbox_id, project_id, agent_turn_id, budget }: Row) => ({
  inbox_id,
  project_id,
  agent_turn_id,
  budget,
})

function keyOf(row: Row): string {
  return row.correlation_id === undefined ? row.inbox_id : `${row.project_id} ${row.agent_id} ${row.correlation_id}`
}

function enqueued(row: Row, verdicts: ReadonlyMap<string, EnqueueVerdict>): Enqueued | InvalidInput {
  const verdict = verdicts.get(row.inbox_id)
  switch (verdict?.what) {
    case 'leased':
      return { agentTurnId: verdict.agent_turn_id, inboxId: verdict.inbox_id, status: 'pending', duplicate: false }
    case 'enqueued':
      return { agentTurnId: verdict.agent_turn_id, inboxId: verdict.inbox_id, status: 'queued', duplicate: false }
    case 'duplicate': {
      const { inbox_id: inboxId, status } = verdict.detail
      return { agentTurnId: verdict.agent_turn_id, inboxId, status, duplicate: true }
    }
    case 'unknown_agent':
      return new InvalidInput(`Unknown agent "${verdict.agent_id}" in project "${verdict.project_id}"`, {
        code: 'unknown_agent',
        hint: 'create a file agents/NAME.md, or add the agent with PUT /projects/PROJECT/agents/NAME',
      })
    case 'unknown_box':
      return new InvalidInput('Unknown context box or output box', {
        code: 'unknown_box',
        hint: 'use boxes of the same project: create the context box first (it can pack other boxes) and omit the output box',
      })
    case 'agent_retired':
      return new InvalidInput(`Agent "${verdict.agent_id}" is retired and takes no new turns`, {
        code: 'agent_retired',
      })
    case 'recursion_depth_exceeded':
      return new InvalidInput('The chain of agents that call agents is too deep', {
        code: 'recursion_depth_exceeded',
        hint: 'let one agent do more of the work, or raise pmo.max_recursion_depth',
      })
    default:
      throw new Error(`state.enqueue returned no verdict for inbox row ${row.inbox_id}`)
  }
}
