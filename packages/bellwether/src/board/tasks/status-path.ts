/**
 * The shortest legal way from one status to another, as lines: what a person means by "done" or "give it up" may take more
 * than one move. Always: every move on the way is in `transitions`. Whether the way should be taken is decided elsewhere.
 */
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

/** The types of line that lead there; empty when it is there already, null when no way leads there. */
export function statusPath(from: TaskStatus, to: TaskStatus): readonly EventType[] | null {
  const cameFrom = new Map<TaskStatus, TaskStatus>()
  const open: TaskStatus[] = [from]
  for (let here = open.shift(); here !== undefined && here !== to; here = open.shift()) {
    // Of two ways of one length the one over `blocked`: a claim would say that somebody took the task up.
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

/** Drafts along the way; the payload goes on the last one, because it is what the way was for. */
export function draftsAlongPath(lines: readonly EventType[], draft: Omit<Draft, 'type' | 'eventId'>): readonly Draft[] {
  const { payload, ...rest } = draft
  return lines.map((type, position) => ({
    ...rest,
    type,
    ...(position === lines.length - 1 && payload !== undefined ? { payload } : {}),
  }))
}
