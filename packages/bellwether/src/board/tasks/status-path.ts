/**
 * The shortest path of legal transitions from one status to another, as event types: a command such as "done" may need more
 * than one event.
 */
import { defined } from '@bellwether/base'
import { transitions, type Draft, type EventType, type TaskStatus } from '../log/task.js'

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

/** One draft per event; the last one carries the payload. */
export function draftsAlongPath(lines: readonly EventType[], draft: Omit<Draft, 'type' | 'eventId'>): readonly Draft[] {
  const { payload, ...rest } = draft
  return lines.map((type, position) => ({
    ...rest,
    type,
    ...(position === lines.length - 1 ? defined({ payload }) : {}),
  }))
}
