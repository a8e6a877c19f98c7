/**
 * Applies one event to one task. The transitions of task.ts decide whether a move is legal; the size of a task is bounded;
 * the first event that ends a run wins. fold.ts decides which lines count.
 */
import type { Payload } from '../lines/payload.js'
import { leadsTo, transitions, type EventType, type Run, type Task, type TaskStatus } from '../task.js'

export type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** The parts of a line that change a task. */
export interface EventParts {
  readonly payload: Payload
  readonly eventIdStart: number
  readonly eventIdEnd: number
  readonly actorStart: number
  readonly actorEnd: number
  at(): string
  text(start: number, end: number): string
}

// Bounds a task that is retried without end; the log has all of its runs.
export const runsMax = 20
// Far more than any policy needs; without a bound, a new name in every line would fill the memory.
export const fieldsMax = 128

const none: readonly never[] = Object.freeze([])
const empty: Readonly<Record<string, unknown>> = Object.freeze({})
const closers: ReadonlySet<EventType> = new Set(['task_review', 'task_done', 'task_blocked', 'task_failed'])

/** The status after this event; undefined: the transition is illegal. */
export function statusAfter(
  status: TaskStatus,
  type: EventType,
  payload: Pick<Payload, 'from' | 'to'>,
): TaskStatus | undefined {
  const target = leadsTo[type]
  if (target === null) return status
  if (payload.from === status) {
    // A second claim by the reference starts the work, a third hands it over, and any event may repeat the current status.
    if (payload.to === status && target === status) return status
    if (type === 'task_claimed' && payload.to === 'in_progress')
      return status === 'in_progress' || transitions[status].includes('in_progress') ? 'in_progress' : undefined
    // Later versions of the reference put a task back into the queue, even if it is done.
    if (type === 'task_reopened' && payload.to === 'pending') return 'pending'
  }
  return transitions[status].includes(target) ? target : undefined
}

export function createTask(taskId: string, parts: EventParts): Mutable<Task> {
  const at = parts.at()
  const { payload } = parts
  const task: Mutable<Task> = {
    taskId,
    title: payload.title ?? '',
    status: 'pending',
    priority: payload.priority ?? 0,
    impact: payload.impact ?? 0,
    dependencies: payload.dependencies ?? none,
    assignee: payload.assignee ?? null,
    reason: null,
    createdAt: at,
    updatedAt: at,
    runs: none,
    fields: empty,
  }
  setFields(task, payload.fields)
  return task
}

/** Changes the task in place, except its time. The caller owns the task. */
export function applyEvent(task: Mutable<Task>, type: EventType, status: TaskStatus, parts: EventParts): void {
  const { payload } = parts
  const before = task.status
  task.status = status
  if (payload.title !== undefined) task.title = payload.title
  if (payload.priority !== undefined) task.priority = payload.priority
  if (payload.impact !== undefined) task.impact = payload.impact
  if (payload.dependencies !== undefined) task.dependencies = payload.dependencies
  if (payload.assignee !== undefined) task.assignee = payload.assignee
  else if (type === 'task_claimed') task.assignee = parts.text(parts.actorStart, parts.actorEnd)
  if (payload.fields.length > 0) setFields(task, payload.fields)
  if (status === 'blocked' || status === 'failed') {
    const reason = payload.reason ?? (type === 'task_noted' ? undefined : payload.reasonCode)
    if (reason !== undefined) task.reason = reason
    else if (before !== status) task.reason = null
  } else task.reason = null
  if (payload.damage !== undefined && payload.damage !== null) task.damage = payload.damage
  else if (task.damage !== undefined && (leadsTo[type] !== null || payload.damage === null)) delete task.damage
  if (payload.runId !== undefined) updateRun(task, payload.runId, closers.has(type), parts)
  else if (type === 'task_started' && payload.hasRun) openRun(task, parts)
}

/** The board's control after an operator's command. A fence only raises the token. */
export function controlAfter(
  control: Readonly<Record<string, unknown>>,
  payload: Payload,
): Readonly<Record<string, unknown>> {
  if (payload.raw['fence'] !== undefined) return control
  const after: Record<string, unknown> = { ...control }
  for (const [key, value] of Object.entries(payload.raw)) put(after, key, value)
  return after
}

function setFields(task: Mutable<Task>, fields: readonly unknown[]): void {
  if (fields.length === 0) return
  if (task.fields === empty) task.fields = {}
  for (let i = 0; i < fields.length; i += 2)
    put(task.fields as Record<string, unknown>, fields[i] as string, fields[i + 1])
}

function put(fields: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') return
  if (!Object.hasOwn(fields, key) && Object.keys(fields).length >= fieldsMax) return
  fields[key] = value
}

function openRun(task: Mutable<Task>, parts: EventParts): void {
  const startedAt = parts.at()
  const { agent = task.assignee ?? '', agentTurnId } = parts.payload
  const runId = parts.text(parts.eventIdStart, parts.eventIdEnd)
  const run: Run = agentTurnId === undefined ? { runId, agent, startedAt } : { runId, agent, startedAt, agentTurnId }
  if (agent !== '') task.assignee = agent
  task.runs = task.runs.length === 0 ? [run] : [...task.runs.slice(1 - runsMax), run]
}

function updateRun(task: Mutable<Task>, runId: string, closing: boolean, parts: EventParts): void {
  const { payload } = parts
  const index = task.runs.findLastIndex((run) => run.runId === runId)
  const run = task.runs[index]
  if (run === undefined || run.endedAt !== undefined) return
  const after: Mutable<Run> = { ...run }
  if (payload.agentTurnId !== undefined) after.agentTurnId = payload.agentTurnId
  // If a person moved the task before its run ended, a note with an outcome closes the run.
  if (closing || payload.outcome !== undefined) {
    after.endedAt = parts.at()
    if (payload.outcome !== undefined) after.outcome = payload.outcome
    if (payload.reasonCode !== undefined) after.reasonCode = payload.reasonCode
    if (payload.tokenUsage !== undefined) after.tokenUsage = payload.tokenUsage
    if (payload.elapsedMs !== undefined) after.elapsedMs = payload.elapsedMs
  }
  task.runs = task.runs.with(index, after)
}
