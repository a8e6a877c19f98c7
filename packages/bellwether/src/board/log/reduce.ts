/**
 * One event and one task: where it leads, and what it leaves on the task. Always: the transitions of task.ts alone decide
 * whether a task may move; what a task carries is bounded; the first word on how a run ended stands. What a payload says is
 * left to said.ts, which lines count at all to the fold.
 */
import type { Payload } from './payload.js'
import { leadsTo, transitions, type EventType, type Run, type Task, type TaskStatus } from './task.js'

export type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** The parts of a line that a task is made of. */
export interface EventParts {
  readonly payload: Payload
  readonly eventIdStart: number
  readonly eventIdEnd: number
  readonly actorStart: number
  readonly actorEnd: number
  at(): string
  text(start: number, end: number): string
}

// A task that is tried for ever must not grow for ever; the log has them all.
export const runsMax = 20
// Far more than any policy needs; a new name in every line would otherwise fill the memory.
export const fieldsMax = 128

const none: readonly never[] = Object.freeze([])
const empty: Readonly<Record<string, unknown>> = Object.freeze({})
const closers: ReadonlySet<EventType> = new Set(['task_review', 'task_done', 'task_blocked', 'task_failed'])

/** The status after this event; undefined: the task may not move that way. */
export function statusAfter(
  status: TaskStatus,
  type: EventType,
  said: Pick<Payload, 'from' | 'to'>,
): TaskStatus | undefined {
  const plain = leadsTo[type]
  if (plain === null) return status
  if (said.from === status) {
    // The reference's second claim starts the work, and it may say again what a task is already.
    if (said.to === status && plain === status) return status
    if (type === 'task_claimed' && said.to === 'in_progress')
      return transitions[status].includes('in_progress') ? 'in_progress' : undefined
  }
  return transitions[status].includes(plain) ? plain : undefined
}

export function createTask(taskId: string, facts: EventParts): Mutable<Task> {
  const at = facts.at()
  const { payload: said } = facts
  const task: Mutable<Task> = {
    taskId,
    title: said.title ?? '',
    status: 'pending',
    priority: said.priority ?? 0,
    impact: said.impact ?? 0,
    dependencies: said.dependencies ?? none,
    assignee: said.assignee ?? null,
    reason: null,
    createdAt: at,
    updatedAt: at,
    runs: none,
    fields: empty,
  }
  setFields(task, said.fields)
  return task
}

/** Changes the task, but for its time; whoever calls owns it. */
export function applyEvent(task: Mutable<Task>, type: EventType, status: TaskStatus, facts: EventParts): void {
  const { payload: said } = facts
  const before = task.status
  task.status = status
  if (said.title !== undefined) task.title = said.title
  if (said.priority !== undefined) task.priority = said.priority
  if (said.impact !== undefined) task.impact = said.impact
  if (said.dependencies !== undefined) task.dependencies = said.dependencies
  if (said.assignee !== undefined) task.assignee = said.assignee
  else if (type === 'task_claimed') task.assignee = facts.text(facts.actorStart, facts.actorEnd)
  if (said.fields.length > 0) setFields(task, said.fields)
  if (status === 'blocked' || status === 'failed') {
    const reason = said.reason ?? (type === 'task_noted' ? undefined : said.reasonCode)
    if (reason !== undefined) task.reason = reason
    else if (before !== status) task.reason = null
  } else task.reason = null
  if (said.runId !== undefined) updateRun(task, said.runId, closers.has(type), facts)
  else if (type === 'task_started' && said.hasRun) openRun(task, facts)
}

/** An operator's word to the whole board. A fence only raises the token: it is no word. */
export function controlAfter(
  control: Readonly<Record<string, unknown>>,
  said: Payload,
): Readonly<Record<string, unknown>> {
  if (said.raw['fence'] !== undefined) return control
  const after: Record<string, unknown> = { ...control }
  for (const [key, value] of Object.entries(said.raw)) put(after, key, value)
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

function openRun(task: Mutable<Task>, facts: EventParts): void {
  const startedAt = facts.at()
  const { agent = task.assignee ?? '', agentTurnId } = facts.payload
  const runId = facts.text(facts.eventIdStart, facts.eventIdEnd)
  const run: Run = agentTurnId === undefined ? { runId, agent, startedAt } : { runId, agent, startedAt, agentTurnId }
  if (agent !== '') task.assignee = agent
  task.runs = task.runs.length === 0 ? [run] : [...task.runs.slice(1 - runsMax), run]
}

function updateRun(task: Mutable<Task>, runId: string, closing: boolean, facts: EventParts): void {
  const { payload: said } = facts
  const index = task.runs.findLastIndex((run) => run.runId === runId)
  const run = task.runs[index]
  if (run === undefined || run.endedAt !== undefined) return
  const after: Mutable<Run> = { ...run }
  if (said.agentTurnId !== undefined) after.agentTurnId = said.agentTurnId
  // A hand may have moved the task on before its run ended: then a note closes the run, by saying how it ended.
  if (closing || said.outcome !== undefined) {
    after.endedAt = facts.at()
    if (said.outcome !== undefined) after.outcome = said.outcome
    if (said.reasonCode !== undefined) after.reasonCode = said.reasonCode
    if (said.tokenUsage !== undefined) after.tokenUsage = said.tokenUsage
    if (said.elapsedMs !== undefined) after.elapsedMs = said.elapsedMs
  }
  task.runs = task.runs.with(index, after)
}
