/**
 * Fork: a batch of tasks, made whole with the wait that it answers (hazard 17). The ids of its turns are minted here, once, so
 * that putting them in line can be repeated by anybody. What comes of the tasks is the joiner's business (pmo/batches.ts).
 */
import { createHash } from 'node:crypto'
import { InvalidInput, token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { limitRow, type Limits } from '../budgets/budgets.js'
import { cardRow, resultFieldsCard, unknownCard, type FieldSpec, type NewCard } from '../cards.js'
import { plainText } from '../../content.js'
import { traceparentOf } from '../../trace.js'
import { fenceRow, type Fence, type Verdict } from '../../verdict.js'

/** The PMO's own tool: its doorbell is rung when there is a batch to join. */
export const joinTool = 'fork_join'

const targetStrategies = ['new', 'reuse', 'clone'] as const
type TargetStrategy = (typeof targetStrategies)[number]

export interface NewTask {
  /** `new`: a fresh agent of the profile `targetRef`. `reuse`: that agent itself. `clone`: a copy of it, with its memory. */
  readonly targetStrategy: TargetStrategy
  readonly targetRef: string
  readonly instruction?: string
  /** What the task may read; with an instruction, the instruction comes behind it in a box of the task's own. */
  readonly contextBoxId?: string
  readonly resultFields?: readonly FieldSpec[]
  /** A share of the parent's budget by number; absent: an equal share of what is left. */
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
  /** The caller's name for it: asking again with it changes nothing. */
  readonly key?: string
  readonly channelId?: string
  readonly traceparent?: string
  /** A purse that pays for it. */
  readonly purseId?: string
}

// One transaction makes them all: about a second at this size.
const tasksMax = 2_000
const deadlineDefaultSeconds = 3_600
const deadlineMaxSeconds = 2_592_000
/** The wait outlives its batch by this much, so that the joiner answers with what there is, and no timeout does in its place. */
const graceSeconds = 30

/** What open_batches takes: rows of three kinds, flat, so that the database reads each of them once. */
export interface ForkRows {
  readonly batches: readonly object[]
  readonly tasks: readonly object[]
  readonly boxes: readonly object[]
  readonly packing: boolean
}

/** The batch that a turn's tool call asks for: its id follows from the call's. */
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

/** The same question has the same id. */
function batchIdOf(...names: readonly string[]): string {
  const hex = createHash('sha256').update(JSON.stringify(names)).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}

function forkRows(ids: Ids, batchId: string, projectId: string, batch: NewBatch, more: object): ForkRows {
  const { tasks, failFast = false, deadlineSeconds = deadlineDefaultSeconds } = batch
  if (tasks.length === 0 || tasks.length > tasksMax) {
    throw new InvalidInput(`a batch has 1 to ${tasksMax} tasks`, { code: 'invalid_batch' })
  }
  if (!(deadlineSeconds > 0 && deadlineSeconds <= deadlineMaxSeconds)) {
    throw new InvalidInput(`deadline_seconds must be more than 0 and at most ${deadlineMaxSeconds}`, {
      code: 'invalid_deadline',
    })
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

// What stands before it must leave room for the turn's id.
const nameMax = 80

function taskRow(ids: Ids, task: NewTask, position: number, batchId: string, projectId: string) {
  const { targetStrategy, instruction, contextBoxId, resultFields } = task
  if (!targetStrategies.includes(targetStrategy)) {
    throw new InvalidInput(`target_strategy of task ${position} must be ${targetStrategies.join(', ')}`, {
      code: 'invalid_target_strategy',
    })
  }
  const targetRef = token(task.targetRef, 'target_ref')
  if (instruction === undefined && contextBoxId === undefined) {
    throw new InvalidInput(`task ${position} has neither an instruction nor a context_box_id`, {
      code: 'no_instruction',
    })
  }
  const cards: NewCard[] = []
  if (instruction !== undefined) {
    cards.push({ type: 'task.instruction', role: 'user', content: { text: instruction } })
  }
  if (resultFields !== undefined) cards.push(resultFieldsCard(resultFields))
  const made = cards.map((card) => cardRow(ids, card))
  const agentTurnId = ids.next()
  const given = contextBoxId === undefined ? undefined : plainText(contextBoxId, 'context_box_id')
  // The common case goes with the task itself. Otherwise: what a task was told comes behind what it was given to read.
  const alone = instruction !== undefined && resultFields === undefined && given === undefined
  const box =
    alone || made.length === 0
      ? undefined
      : {
          project_id: projectId,
          box_id: ids.next(),
          kind: 'context',
          cards: made,
          pack: given === undefined ? undefined : [given],
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
    context_box_id: alone ? ids.next() : (box?.box_id ?? given),
    ...(alone ? { card_id: made[0]!.card_id, card: made[0]!['content'] } : {}),
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
  const batchId = outside.key === undefined ? ids.next() : batchIdOf('key', projectId, plainText(outside.key, 'key'))
  const rows = forkRows(ids, batchId, projectId, outside, {
    channel_id: outside.channelId === undefined ? undefined : token(outside.channelId, 'channel'),
    traceparent: outside.traceparent === undefined ? undefined : traceparentOf(batchId, outside.traceparent),
    budget_id: outside.purseId,
  })
  const [verdict] = await db
    .query<Verdict>({ name: 'bw_fork', text: 'select * from state.fork($1::json)', values: [JSON.stringify(rows)] })
    .catch(unknownCard)
  return { batchId, what: verdict?.what === 'forked' ? 'forked' : 'already' }
}

// Keeps a call near 50 ms; the first children run while the last are put in line.
const chunkMax = 250
// One call is built by the database while another commits.
const lanes = 2
// 1, 2, 4, 8 s: a roster that is being loaded is there by then.
const dispatchRetrySeconds = 1
const dispatchAttemptsMax = 5

/** Puts tasks of a batch in line; what cannot be is put off or fails, and no task keeps another from it. */
export async function dispatchTasks(
  db: Queryable,
  batchId: string,
  positions: readonly number[],
  onDone: (verdicts: readonly Verdict[]) => Promise<unknown> = async () => undefined,
): Promise<Verdict[]> {
  const chunks: (readonly number[])[] = []
  for (let from = 0; from < positions.length; from += chunkMax) chunks.push(positions.slice(from, from + chunkMax))
  const done: Verdict[] = []
  const lane = async (): Promise<void> => {
    for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) {
      const verdicts = await dispatchChunk(db, batchId, chunk)
      done.push(...verdicts)
      // The first children need not wait for the last to be put in line.
      await onDone(verdicts)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return done
}

async function dispatchChunk(db: Queryable, batchId: string, positions: readonly number[]): Promise<Verdict[]> {
  try {
    return await db.query<Verdict>({
      name: 'bw_dispatch_tasks',
      text: 'select * from state.dispatch_tasks($1, $2, $3, $4)',
      values: [batchId, positions, dispatchRetrySeconds, dispatchAttemptsMax],
    })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'BW005') return []
    // What the database could not do now is tried again; what it will not do is one task's fault, and that task alone pays.
    if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code)) throw error
    if (positions.length === 1) return putOff(db, batchId, positions, 'dispatch_failed')
    const all: Verdict[] = []
    for (const position of positions) all.push(...(await dispatchChunk(db, batchId, [position])))
    return all
  }
}

async function putOff(
  db: Queryable,
  batchId: string,
  positions: readonly number[],
  reason: string,
): Promise<Verdict[]> {
  return db.query<Verdict>({
    name: 'bw_put_off_tasks',
    text: 'select * from state.put_off_tasks($1, $2, $3, $4, $5)',
    values: [batchId, positions, positions.map(() => reason), dispatchRetrySeconds, dispatchAttemptsMax],
  })
}

/** Tasks that are due to be put in line, or in line again. */
export async function dueTasks(db: Queryable, batchId: string): Promise<number[]> {
  const rows = await db.query<{ position: number }>({
    name: 'bw_due_tasks',
    text: `select position from state.batch_tasks
      where batch_id = $1 and status = 'waiting' and next_attempt_at <= state.now() order by position`,
    values: [batchId],
  })
  return rows.map((row) => row.position)
}
