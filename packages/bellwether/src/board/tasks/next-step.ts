/** Says what happens next with a task and when, and what a person can do now. Pure: the rules of ready.ts decide. */
import type { NextStep, TaskMove } from '@bellwether/protocol/http'
import { iso, mergingOf, needsApproval, openRun, textField } from './task-fields.js'
import { human, recoveriesOf, recoveryOf, ruleFor, type RecoveryEntry } from '../policies/recovery.js'
import type { Readiness, ReadyRules, WaitCode } from './ready.js'
import type { Task } from '../log/task.js'

/** The recovery for the reason that blocks the task, else the one with the latest deadline. */
export function currentRecovery(task: Task): RecoveryEntry | undefined {
  const reason = textField(task, 'reasonCode')
  const latest = () => [...recoveriesOf(task).values()].toSorted((a, b) => b.deadlineTs - a.deadlineTs)[0]
  return (reason === null ? undefined : recoveryOf(task, reason)) ?? latest()
}

/** The agent that a person's retry starts with. */
export const retryAgent = (task: Task, firstAgent: string): string =>
  textField(task, 'agent') ?? textField(task, 'role') ?? task.runs.at(-1)?.agent ?? firstAgent

const personWaits: Partial<Record<WaitCode, string>> = {
  approval: 'A person approves or rejects it.',
  review: 'A person reviews it.',
  merge: 'A person merges its change, sends it back or keeps it on its branch.',
  held: 'A person is working on it.',
  person: 'A person decides.',
  damaged: 'A person checks the line of the log and releases it.',
  no_agent: 'A person gives the task to an agent that may take it.',
}

export function nextStepOf(task: Task, ready: Readiness, rules: ReadyRules, pausedBy: string | null): NextStep {
  if (ready.ready)
    return pausedBy === null
      ? { what: 'run', who: ready.assignee, at: null, text: `${ready.assignee} runs it next.` }
      : {
          what: 'wait',
          who: ready.assignee,
          at: null,
          text: `${ready.assignee} runs it after a person resumes the board.`,
        }
  const { code, why, until = null } = ready
  const entry = currentRecovery(task)
  if (code === 'done') return { what: 'over', who: null, at: null, text: 'Nothing: it is done.' }
  if (code === 'failed') return { what: 'over', who: null, at: null, text: 'Nothing, until a person retries it.' }
  if (code === 'cooldown') {
    const who = entry?.nextAssignee ?? rules.firstAgent
    const of =
      entry === undefined
        ? ''
        : `, after ${failedAttempts(entry, ruleFor(rules.recovery, entry.reasonCode).maxAttempts)}`
    return { what: 'retry', who, at: until, text: `${who} tries again at ${until ?? 'the end of the pause'}${of}.` }
  }
  const asksPerson = personWaits[code]
  if (asksPerson !== undefined) return { what: 'person', who: null, ...reminder(asksPerson, entry, rules) }
  return { what: 'wait', who: openRun(task)?.agent ?? null, at: until, text: sentence(why) }
}

const failedAttempts = ({ attempt }: RecoveryEntry, max: number) =>
  `${attempt} of ${max} ${max === 1 ? 'attempt' : 'attempts'} failed`

/** The deadline of a person, and what follows it. */
function reminder(text: string, entry: RecoveryEntry | undefined, { recovery }: ReadyRules) {
  if (entry === undefined || entry.nextAssignee !== human) return { at: null, text }
  const at = iso(entry.deadlineTs * 1_000)
  const left = recovery.humanReminders - entry.reminders
  const then = left <= 0 ? `Without an answer, the task fails at ${at}.` : `The next reminder is at ${at}.`
  return { at, text: `${text} ${then}` }
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

/** What a person can do now, the likely first. */
export function movesOf(task: Task, ready: Readiness, rules: ReadyRules): readonly TaskMove[] {
  const { taskId, status } = task
  const move = (action: TaskMove['action'], effect: string): TaskMove => ({
    action,
    effect,
    command: `bellwether task ${action.replace('_', '-')} ${taskId}`,
  })
  const code = ready.ready ? null : ready.code
  const agent = retryAgent(task, rules.firstAgent)
  const hasRun = task.runs.length > 0
  const retry = move('retry', `${agent} tries again now${hasRun ? ', and gets what failed' : ''}`)
  const done = move('done', 'you did the work yourself: its checks run, and if they pass, it is done')
  const abort = move(
    'abort',
    openRun(task) === null ? 'it ends as failed' : 'its turn is stopped, and it ends as failed',
  )
  const escalate = move('escalate', 'no agent tries it any more, and a person decides')
  if (status === 'done') return []
  if (status === 'failed') return [retry]
  if (code === 'approval' && needsApproval(task))
    return [move('approve', 'it may start'), move('reject', 'it ends as failed'), abort]
  if (code === 'damaged') return [move('release', 'it may be dispatched again'), abort]
  if (code === 'frozen') return [move('unfreeze', 'it may be dispatched again'), abort]
  const merging = mergingOf(task)
  if (merging !== null && (code === 'merge' || status === 'blocked')) {
    const decisions = [
      move('merge', `its change is merged into ${merging.base}`),
      move('send_back', `${task.runs.at(-1)?.agent ?? agent} continues on it, and gets your reason`),
      move('keep', `it is done, and its commits stay on ${merging.branch}`),
    ]
    return status === 'blocked' ? [...decisions, done, abort] : [...decisions, abort]
  }
  if (code === 'merging') return []
  if (code === 'review')
    return [{ ...done, effect: 'you accept it: its checks run again, and if they pass, it is done' }, retry]
  if (status === 'blocked') return code === 'cooldown' ? [retry, escalate, done, abort] : [retry, done, abort]
  if (code === 'held') return [done, abort]
  return [escalate, abort]
}
