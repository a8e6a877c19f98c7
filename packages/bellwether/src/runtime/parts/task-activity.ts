/**
 * Compares the tasks of a board with what they were at the last look, and reports which of them started, ended or need a person since.
 * Each run that ends without being accepted is reported once, even if the task was not blocked at any look. Pure.
 */
import { objectOf } from '@bellwether/base'
import { reasonInWords } from '@bellwether/protocol/spending'
import { openRun } from '../../board/tasks/task-fields.js'
import { readiness, type ReadyRules } from '../../board/tasks/ready.js'
import type { BoardState, Task } from '../../board/log/task.js'

export interface Activity {
  readonly what: 'turn' | 'task'
  /** Of the turn or task. */
  readonly id: string
  readonly agent: string | null
  readonly change: 'started' | 'ended' | 'needs_person' | 'needs_approval' | 'parked'
  /** How it ended: the outcome of a turn, the status of a task. */
  readonly outcome?: string
  readonly elapsedMs?: number
  /** A title, a reason, or what a person is asked. */
  readonly about?: string
}

/** The wait codes that a person ends. */
const personCodes: ReadonlySet<string> = new Set([
  'approval',
  'review',
  'merge',
  'held',
  'person',
  'damaged',
  'no_agent',
])

interface KnownTask {
  /** Its status, and the code of its wait for a person. */
  readonly standing: string
  /** Of its newest run. */
  readonly runId: string | undefined
  readonly isOpen: boolean
  /** Whether the end of its newest run has been reported. */
  readonly isEndReported: boolean
}

/** Returns a function that reports what changed since it was last called. */
export function followTasks(): (state: BoardState, nowMs: number, rules: ReadyRules) => Activity[] {
  const known = new Map<string, KnownTask>()

  function changesOf(task: Task, wait: PersonWait | undefined): Activity[] {
    const before = known.get(task.taskId)
    const runId = task.runs.at(-1)?.runId
    const now = { standing: `${task.status} ${wait?.code ?? ''}`, runId, isOpen: openRun(task) !== null }
    if (before?.standing === now.standing && before.runId === now.runId && before.isOpen === now.isOpen) return []
    const activity = taskActivity(task, wait)
    const isEndReported = activity !== undefined || (before?.runId === runId && before?.isEndReported === true)
    known.set(task.taskId, { ...now, isEndReported })
    return [...runChanges(task, before), activity ?? []].flat()
  }

  return (state, nowMs, rules) =>
    [...state.tasks.values()].flatMap((task) => {
      const found = readiness(task, state, nowMs, rules)
      return changesOf(task, !found.ready && personCodes.has(found.code) ? found : undefined)
    })
}

/** The runs that started since the last look, and the runs before them that were not accepted: an agent may try again at once. */
function runChanges(task: Task, before: KnownTask | undefined): Activity[] {
  const { runs, taskId: id, title } = task
  const lastClosed = runs.findLast((run) => run.endedAt !== undefined)
  const known = runs.findIndex((run) => run.runId === before?.runId)
  return runs.slice(known + 1).flatMap((run, at) => {
    const started: Activity = { what: 'task', id, agent: run.agent, change: 'started', about: title }
    const last = runs[known + at]
    const isReported =
      last === undefined || last.reasonCode === undefined || (at === 0 && before?.isEndReported === true)
    if (isReported) return [started]
    const about = `${title}: ${(last === lastClosed ? problemOf(task) : undefined) ?? reasonInWords(last.reasonCode)}`
    const { agent } = last
    return [{ what: 'task', id, agent, change: 'ended', outcome: 'not accepted', about }, started]
  })
}

interface PersonWait {
  readonly code: string
  readonly why: string
}

function taskActivity(task: Task, wait: PersonWait | undefined): Activity | undefined {
  const { taskId: id, status, title, reason, assignee: agent } = task
  const line = { what: 'task', id, agent } as const
  if (wait !== undefined) {
    const why = wait.code === 'person' ? (problemOf(task) ?? wait.why) : wait.why
    return { ...line, change: 'needs_person', about: `${title}: ${why}` }
  }
  if (openRun(task) !== null) return undefined
  if (status === 'done') return { ...line, change: 'ended', outcome: status, about: title }
  if (status === 'blocked' || status === 'failed')
    return {
      ...line,
      change: 'ended',
      outcome: status,
      about: [title, problemOf(task) ?? reason ?? []].flat().join(': '),
    }
  return undefined
}

/** Why the board did not accept the last run, in words. */
function problemOf({ fields: { spawn } }: Task): string | undefined {
  const error = objectOf(spawn)['error']
  return typeof error === 'string' ? error : undefined
}
