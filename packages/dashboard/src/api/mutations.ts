/** What a person can change from the pages. Each is one request; the caller refetches to see the effect. */
import { random } from '../ports/random.js'
import { ask, Problem } from './client.js'
import { session } from './session.js'
import type {
  ApprovalDecision,
  BulkTasks,
  BulkTurns,
  Fork,
  LineComment,
  NewTurn,
  ScheduleInput,
  TaskAction,
  TaskFields,
  ToolAnswer,
} from './types.js'

/** Requests with the same key start one turn. */
export const startTurn = (project: string, agent: string, turn: NewTurn, key: string) =>
  ask('POST /projects/:project/agents/:agent/turns', {
    params: { project, agent },
    body: turn,
    headers: { 'idempotency-key': key },
  })

export const stopTurn = (project: string, turn: string, reason: string) =>
  ask('POST /projects/:project/turns/:turn/stop', { params: { project, turn }, body: { reason } })

/** A repeated request changes no turn twice. */
export const bulkTurns = (project: string, body: BulkTurns) =>
  ask('POST /projects/:project/turns/bulk', { params: { project }, body, expects: 'rows' })

/** Requests with the same id store one message. */
export const sayToTurn = (project: string, turn: string, message: { text: string; now: boolean; message_id: string }) =>
  ask('POST /projects/:project/turns/:turn/messages', { params: { project, turn }, body: message })

/** Requests with the same key start one turn. */
export const continueTurn = (project: string, turn: string, instruction: string, key: string) =>
  ask('POST /projects/:project/turns/:turn/continue', {
    params: { project, turn },
    body: { instruction },
    headers: { 'idempotency-key': key },
  })

/** Requests with the same key start one turn. */
export const forkTurn = (project: string, turn: string, body: Fork, key: string) =>
  ask('POST /projects/:project/turns/:turn/fork', {
    params: { project, turn },
    body,
    headers: { 'idempotency-key': key },
  })

/** A repeated or late answer is acknowledged as `ignored`. */
export const sendAnswer = (project: string, call: string, answer: ToolAnswer) =>
  ask('POST /projects/:project/tool-calls/:call/result', {
    params: { project, call },
    body: answer,
    headers: { 'idempotency-key': random.id() },
  })

export const liftHold = (account: string) => ask('POST /quotas/lift', { body: { account } })

export const addSchedule = (project: string, schedule: string, definition: ScheduleInput) =>
  ask('POST /projects/:project/schedules', { params: { project }, body: { schedule, definition } })

export const changeSchedule = (project: string, schedule: string, definition: ScheduleInput) =>
  ask('PUT /projects/:project/schedules/:schedule', { params: { project, schedule }, body: { definition } })

export const deleteSchedule = (project: string, schedule: string) =>
  ask('DELETE /projects/:project/schedules/:schedule', { params: { project, schedule } })

export const pauseSchedule = (project: string, schedule: string, isPaused: boolean) =>
  isPaused
    ? ask('POST /projects/:project/schedules/:schedule/pause', { params: { project, schedule } })
    : ask('POST /projects/:project/schedules/:schedule/resume', { params: { project, schedule } })

export const runSchedule = (project: string, schedule: string) =>
  ask('POST /projects/:project/schedules/:schedule/run', {
    params: { project, schedule },
    headers: { 'idempotency-key': random.id() },
  })

/** A repeated or late decision is refused with the reason. */
export const decideApproval = (project: string, approval: string, decision: ApprovalDecision) =>
  ask('POST /projects/:project/approvals/:approval/decision', {
    params: { project, approval },
    body: decision,
    headers: { 'idempotency-key': random.id() },
  })

export const revokeGrant = (project: string, grant: string) =>
  ask('DELETE /projects/:project/grants/:grant', { params: { project, grant } })

/** Ends the cookie session and removes the key of this tab. */
export async function signOut(): Promise<void> {
  await ask('DELETE /logins', {}).catch((error: unknown) => {
    // A server without sessions has nothing to end.
    if (!(error instanceof Problem)) throw error
  })
  session.refuse()
}

export const addTask = (task: TaskFields & { readonly title: string }) => ask('POST /board/tasks', { body: task })

/** Undoes a change of fields, unless someone has changed the same fields since. */
export async function editTaskBack(task: string, set: TaskFields, was: TaskFields): Promise<void> {
  const { title, priority, fields, updatedAt } = await ask('GET /board/tasks/:task', {
    params: { task },
    expects: 'runs',
  })
  const now: Readonly<Record<string, unknown>> = { ...fields, title, priority }
  const other = Object.entries(set).find(([name, value]) => JSON.stringify(value) !== JSON.stringify(now[name]))
  if (other !== undefined)
    throw new Problem(409, 'task_changed', `someone has changed the ${other[0]} of ${task} since`)
  await ask('PATCH /board/tasks/:task', { params: { task }, body: { ...was, updatedAt } })
}

export const editTask = (task: string, change: TaskFields) =>
  ask('PATCH /board/tasks/:task', { params: { task }, body: change })

/** Undoes an action, unless the task has changed since. */
export const moveTaskBack = (task: string, action: TaskAction, updatedAt: string) =>
  ask('PATCH /board/tasks/:task', { params: { task }, body: { action, reason: 'undo', updatedAt } })

export const moveTask = (task: string, action: TaskAction, reason: string, comments: readonly LineComment[]) =>
  ask('PATCH /board/tasks/:task', {
    params: { task },
    body: {
      action,
      ...(reason === '' ? {} : { reason }),
      ...(comments.length === 0 ? {} : { comments: [...comments] }),
    },
  })

/** A repeated request changes no task twice, if it names when each last changed. */
export const bulkTasks = (body: BulkTasks) => ask('POST /board/tasks/bulk', { body, expects: 'rows' })

export const pauseBoard = (isPaused: boolean) => ask('POST /board/control', { body: { paused: isPaused } })
