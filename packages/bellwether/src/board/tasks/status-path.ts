/**
 * The shortest path of legal transitions from one status to another, as event types: a command such as "done" may need more
 * than one event.
 */
import { transitions, type Draft, type EventType, type Task, type TaskStatus } from '../log/task.js'

type Payload = Readonly<Record<string, unknown>>

const eventFor: Readonly<Record<TaskStatus, EventType>> = {
  pending: 'task_created',
  claimed: 'task_claimed',
  in_progress: 'task_reopened',
  review: 'task_review',
  done: 'task_done',
  blocked: 'task_blocked',
  failed: 'task_failed',
}

/** Empty: the task already has the status. Null: there is no path. */
export function statusPath(from: TaskStatus, to: TaskStatus): readonly EventType[] | null {
  const cameFrom = new Map<TaskStatus, TaskStatus>()
  const open: TaskStatus[] = [from]
  for (let here = open.shift(); here !== undefined && here !== to; here = open.shift()) {
    // Of two paths of equal length prefer the one through `blocked`: a claim would mean that someone took the task.
    for (const there of transitions[here].toReversed()) {
      if (there === from || cameFrom.has(there)) continue
      cameFrom.set(there, here)
      open.push(there)
    }
  }
  const lines: EventType[] = []
  for (let here = to; here !== from;) {
    const before = cameFrom.get(here)
    if (before === undefined) return null
    lines.unshift(here === 'in_progress' && before === 'claimed' ? 'task_started' : eventFor[here])
    here = before
  }
  return lines
}

/** A line that changes no status. */
export function noted(taskId: string, actor: string, payload: Payload): Draft {
  return { taskId, type: 'task_noted', actor, payload }
}

/** The lines that move a task to a status; the last one carries the payload. A note if it already has the status. Null: there is no path. */
export function draftsTo(
  { taskId, status }: Pick<Task, 'taskId' | 'status'>,
  to: TaskStatus,
  actor: string,
  payload: Payload,
): readonly Draft[] | null {
  const path = statusPath(status, to)
  if (path === null) return null
  if (path.length === 0) return [noted(taskId, actor, payload)]
  return path.map((type, at) => ({ taskId, type, actor, ...(at === path.length - 1 ? { payload } : {}) }))
}
