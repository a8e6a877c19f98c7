/**
 * Fork: creates a batch of tasks together with the wait that it answers (hazard 17). The ids of the tasks' turns are created here, once, so
 * that any process can repeat the dispatch. The joiner (pmo/batches.ts) follows the tasks to their end.
 */
import { createHash } from 'node:crypto'
import { InvalidInput, token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { limitRow, type Limits } from '../budgets/budgets.js'
import { cardRow, resultFieldsCard, cardProblem, type FieldSpec, type NewCard } from '../cards.js'
import { plainText } from '../../content.js'
import { checkTraceparent } from '../../trace.js'
import { fenceRow, type Fence, type Verdict } from '../../verdict.js'

/** The PMO's own tool: its bell rings when there is a batch to join. */
export const joinTool = 'fork_join'

const targetStrategies = ['new', 'reuse', 'clone'] as const
type TargetStrategy = (typeof targetStrategies)[number]

export interface NewTask {
  /** `new`: a new agent with the profile `targetRef`. `reuse`: the agent `targetRef`. `clone`: a copy of that agent with its memory. */
  readonly targetStrategy: TargetStrategy
  readonly targetRef: string
  readonly instruction?: string
  /** The box that the task reads. With an instruction, the task gets its own box that packs this one before the instruction. */
  readonly contextBoxId?: string
  readonly resultFields?: readonly FieldSpec[]
  /** A fixed share of the parent's budget; absent: an equal share of what is left. */
  readonly budget?: Limits
}

export interface NewBatch {
  readonly tasks: readonly NewTask[]
  /** The first task that fails ends the others. */
  readonly failFast?: boolean
  readonly deadlineSeconds?: number
}

/** A batch that no turn waits for. */
export interface OutsideBatch extends NewBatch {
  readonly projectId: string
  /** The caller's key for the batch: repeating the call with it changes nothing. */
  readonly key?: string
  readonly channelId?: string
  readonly traceparent?: string
  /** The purse that pays for the batch. */
  readonly purseId?: string
}

// One transaction creates all tasks, which takes about one second at this size.
const tasksMax = 2_000
const deadlineDefaultSeconds = 3_600
const deadlineMaxSeconds = 2_592_000
// The wait outlasts its batch by this much, so that the joiner answers with partial results before a timeout receipt does.
const graceSeconds = 30

/** The input of open_batches: three flat lists of rows, so that the database parses each of them once. */
export interface ForkRows {
  readonly batches: readonly object[]
  readonly tasks: readonly object[]
  readonly boxes: readonly object[]
  readonly packing: boolean
}

/** The batch of a turn's tool call; its id is derived from the call's id. */
export function forkOfCall(ids: Ids, fence: Fence, stepId: string, toolCallId: string, batch: NewBatch): ForkRows {
  const more = { ...fenceRow(fence), step_id: stepId, tool_call_id: toolCallId }
  return forkRows(ids, batchIdOfCall(fence.projectId, toolCallId), fence.projectId, batch, more)
}

export function together(forks: readonly ForkRows[]): ForkRows {
  return {
    batches: forks.flatMap((fork) => fork.batches),
    tasks: forks.flatMap((fork) => fork.tasks),
    boxes: forks.flatMap((fork) => fork.boxes),
    packing: forks.some((fork) => fork.packing),
  }
}

export function waitSeconds(batch: NewBatch): number {
  return (batch.deadlineSeconds ?? deadlineDefaultSeconds) + graceSeconds
}

export function batchIdOfCall(projectId: string, toolCallId: string): string {
  return batchIdOf('call', projectId, toolCallId)
}

/** The batch that `fork` creates for this key. */
export function batchIdOfKey(projectId: string, key: string): string {
  return batchIdOf('key', projectId, plainText(key, 'key'))
}

/** A stable id: the same names give the same id. */
function batchIdOf(...names: readonly string[]): string {
  const hex = createHash('sha256').update(JSON.stringify(names)).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}

function forkRows(ids: Ids, batchId: string, projectId: string, batch: NewBatch, more: object): ForkRows {
  const { tasks, failFast = false, deadlineSeconds = deadlineDefaultSeconds } = batch
  if (tasks.length === 0 || tasks.length > tasksMax) {
    throw new InvalidInput(`A batch has 1 to ${tasksMax} tasks (got ${tasks.length})`, { code: 'invalid_batch' })
  }
  if (!(deadlineSeconds > 0 && deadlineSeconds <= deadlineMaxSeconds)) {
    throw new InvalidInput(
      `"deadline_seconds" must be more than 0 and at most ${deadlineMaxSeconds} (got ${deadlineSeconds})`,
      { code: 'invalid_deadline' },
    )
  }
  const rows = tasks.map((task, position) => taskRow(ids, task, position, batchId, projectId))
  const row = {
    batch_id: batchId,
    project_id: projectId,
    fail_fast: failFast,
    deadline_seconds: deadlineSeconds,
    grace_seconds: graceSeconds,
    task_count: tasks.length,
    limited: tasks.some((task) => task.budget !== undefined),
    ...more,
  }
  return {
    batches: [row],
    tasks: rows.map((one) => one.task),
    boxes: rows.flatMap((one) => (one.box === undefined ? [] : [one.box])),
    packing: rows.some((one) => one.box?.pack !== undefined),
  }
}

// Leaves room for the turn's id after the name.
const nameMax = 80

function taskRow(ids: Ids, task: NewTask, position: number, batchId: string, projectId: string) {
  const { targetStrategy, instruction, contextBoxId, resultFields } = task
  if (!targetStrategies.includes(targetStrategy)) {
    throw new InvalidInput(
      `"target_strategy" of task ${position} must be one of ${targetStrategies.join(', ')} (got ${JSON.stringify(targetStrategy)})`,
      { code: 'invalid_target_strategy' },
    )
  }
  const targetRef = token(task.targetRef, 'target_ref')
  if (instruction === undefined && contextBoxId === undefined) {
    throw new InvalidInput(`Task ${position} needs an "instruction" or a "context_box_id"`, { code: 'no_instruction' })
  }
  const cards: NewCard[] = []
  if (instruction !== undefined) {
    cards.push({ type: 'task.instruction', role: 'user', content: { text: instruction } })
  }
  if (resultFields !== undefined) cards.push(resultFieldsCard(resultFields))
  const cardRows = cards.map((card) => cardRow(ids, card))
  const agentTurnId = ids.next()
  const packedBoxId = contextBoxId === undefined ? undefined : plainText(contextBoxId, 'context_box_id')
  // In the common case, an instruction only, the task row itself carries the card.
  const hasOnlyInstruction = instruction !== undefined && resultFields === undefined && packedBoxId === undefined
  const box =
    hasOnlyInstruction || cardRows.length === 0
      ? undefined
      : {
          project_id: projectId,
          box_id: ids.next(),
          kind: 'context',
          cards: cardRows,
          pack: packedBoxId === undefined ? undefined : [packedBoxId],
        }
  const row = {
    batch_id: batchId,
    position,
    target_strategy: targetStrategy,
    target_ref: targetRef,
    agent_id: targetStrategy === 'reuse' ? targetRef : `${targetRef.slice(0, nameMax)}-${agentTurnId}`,
    agent_turn_id: agentTurnId,
    inbox_id: ids.next(),
    output_box_id: targetStrategy === 'reuse' ? undefined : ids.next(),
    context_box_id: hasOnlyInstruction ? ids.next() : (box?.box_id ?? packedBoxId),
    ...(hasOnlyInstruction ? { card_id: cardRows[0]!.card_id, card: cardRows[0]!['content'] } : {}),
    ...(task.budget === undefined ? {} : limitRow(task.budget)),
  }
  return { task: row, box }
}

export async function fork(
  db: Queryable,
  ids: Ids,
  outside: OutsideBatch,
): Promise<{ readonly batchId: string; readonly what: 'forked' | 'already' }> {
  const projectId = token(outside.projectId, 'project')
  const batchId = outside.key === undefined ? ids.next() : batchIdOfKey(projectId, outside.key)
  const rows = forkRows(ids, batchId, projectId, outside, {
    channel_id: outside.channelId === undefined ? undefined : token(outside.channelId, 'channel'),
    traceparent: checkTraceparent(outside.traceparent),
    budget_id: outside.purseId,
  })
  const [verdict] = await db
    .query<Verdict<'forked' | 'already'>>({
      name: 'bw_fork',
      text: 'select * from state.fork($1::json)',
      values: [JSON.stringify(rows)],
    })
    .catch(cardProblem)
  return { batchId, what: verdict?.what ?? 'already' }
}
