/**
 * Merges accepted changes into their base branches, one after the other. Every step is in the log before the next one: the accepted commit,
 * each commit that may become the base, the result. So a process that is killed anywhere leaves a task that the next one finishes, and a change is
 * on its base exactly once.
 */
import { defined, errorMessage, makeWake } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { loop } from '../../ports/loop.js'
import type { Worktrees } from '../../ports/git/worktrees.js'
import { commandsFor, howFailed, labelOf } from '../policies/acceptance.js'
import { recoverSame, recoveryCleared, recoveryOf, recoveryPayload } from '../policies/recovery.js'
import { lastLine } from '../tasks/last-failure.js'
import { queuedMerge, queuedMerges } from '../tasks/queued-merges.js'
import { closedAlert } from '../tasks/person-alerts.js'
import { handoffEntry } from '../tasks/reminders.js'
import { worktreeOf, type Merging } from '../tasks/task-fields.js'
import type { Draft, Task } from '../log/task.js'
import { forgetRun, watchedMs, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { recoveryFields, spawnOf } from './report.js'
import { releaseWorktree, worktreesOf } from './workspace.js'

export type Merged = 'merged' | 'stopped' | 'later'

// A base that moves faster than the checks run; the next step tries again.
const triesMax = 5
const filesShown = 20
// A commit that was a candidate so many tries ago cannot become the base any more: the base has moved since.
const candidatesMax = 50
const reasonMaxChars = 2_000

interface MergeStop {
  readonly reasonCode: 'merge_conflict' | 'merge_check_failed' | 'dirty_tree' | 'merge_failed'
  readonly detail: string
  /** Whether the agent can remove the reason; else a person. */
  readonly byAgent: boolean
}

/**
 * Merges what is queued. While another process merges, it does nothing: that process looks at the queue again after it has released the lock.
 * Returns the tasks with their results.
 */
export async function mergeQueued(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
): Promise<readonly { readonly taskId: string; readonly what: Merged }[]> {
  const worktrees = worktreesOf(dispatcher, policies)
  if (worktrees === undefined) return []
  const results: { readonly taskId: string; readonly what: Merged }[] = []
  const tried = new Set<string>()
  const queue = async () => {
    const tasks = queuedMerges(await dispatcher.board.sync())
    return tasks.filter((task) => !tried.has(changeOf(task)))
  }
  while ((await queue()).length > 0) {
    const lock = await worktrees.lockMerges()
    if (lock === undefined) break
    try {
      for (const task of await queue()) {
        tried.add(changeOf(task))
        results.push({ taskId: task.taskId, what: await mergeOne(dispatcher, policies, worktrees, task.taskId) })
      }
    } finally {
      await lock.release()
    }
  }
  return results
}

const changeOf = (task: Task): string => `${task.taskId} ${queuedMerge(task)?.commit}`

async function mergeOne(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  worktrees: Worktrees,
  taskId: string,
): Promise<Merged> {
  const task = dispatcher.board.state.tasks.get(taskId)
  const merging = task === undefined ? null : queuedMerge(task)
  if (task === undefined || merging === null) return 'later'
  const runId = task.runs.at(-1)?.runId ?? taskId
  try {
    const what = await bringOntoBase(dispatcher, policies, worktrees, task, merging)
    if (what === 'later') return what
    forgetRun(dispatcher, runId)
    if (typeof what === 'object') return await stopMerge(dispatcher, policies, taskId, merging, what)
    await releaseWorktree(dispatcher, policies, taskId)
    return what
  } catch (error) {
    if (!(error instanceof Terminal) && !(error instanceof Retryable)) throw error
    if (error instanceof Retryable && watchedMs(dispatcher, runId, 'merge') < policies.acceptance.maxWaitSec * 1_000) {
      dispatcher.log.warn({ err: error, taskId }, 'cannot merge now; retrying')
      return 'later'
    }
    forgetRun(dispatcher, runId)
    const hint = error.hint === undefined ? '' : ` ${error.hint}`
    const detail = `${errorMessage(error)}${hint}`
    return stopMerge(dispatcher, policies, taskId, merging, { reasonCode: 'merge_failed', detail, byAgent: false })
  }
}

async function bringOntoBase(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  worktrees: Worktrees,
  task: Task,
  accepted: Merging,
): Promise<'merged' | 'later' | MergeStop> {
  const { base } = accepted
  let merging = accepted
  /** `from`: where the base was before, if this process moved it. */
  const merged = async (commit: string, from?: string) => {
    const lines = await writeMerging(dispatcher, task.taskId, merging, (now) =>
      mergedDraft(now, merging, { commit, ...defined({ from }) }, dispatcher),
    )
    return lines ? ('merged' as const) : ('later' as const)
  }
  // A killed process may have moved the base before it could record that.
  if (await worktrees.isMerged(task, merging.candidates)) return merged(merging.candidates.at(-1)!)
  for (let tries = 0; tries < triesMax; tries += 1) {
    const found = await worktrees.rebase(task, merging.commit)
    if (found.is === 'merged') return merged(found.base)
    if (found.is === 'conflict') {
      const files = found.files.slice(0, filesShown).join(', ')
      const detail = `${base} has changed the same lines of ${files}. Run git merge ${base} in the worktree, resolve the conflicts and commit.`
      return { reasonCode: 'merge_conflict', detail, byAgent: true }
    }
    // The accepted commit itself was checked; a rebased one was not.
    const failure = found.commit === merging.commit ? null : await checkMerged(dispatcher, policies, task)
    if (failure !== null)
      return { reasonCode: 'merge_check_failed', detail: `on top of ${base}, ${failure}`, byAgent: true }
    const next: Merging = { ...merging, candidates: [...merging.candidates, found.commit].slice(-candidatesMax) }
    const isNoted = await writeMerging(dispatcher, task.taskId, merging, (now) => ({
      taskId: now.taskId,
      type: 'task_noted',
      actor: dispatcher.actor,
      payload: { merging: next },
    }))
    if (!isNoted) return 'later'
    merging = next
    const published = await worktrees.publish(task, found)
    if (published.is === 'published') return merged(found.commit, found.base)
    if (published.is === 'dirty') {
      const files = published.files.slice(0, filesShown).join(', ')
      const detail = `${published.folder} has uncommitted changes that the merge would overwrite: ${files}. Commit or remove them, then run bellwether task merge ${task.taskId}.`
      return { reasonCode: 'dirty_tree', detail, byAgent: false }
    }
  }
  return 'later'
}

/** Runs the commands of the task on the rebased tree. Null: all passed. */
async function checkMerged(dispatcher: Dispatcher, policies: DispatchPolicies, task: Task): Promise<string | null> {
  for (const command of commandsFor(policies.acceptance, task)) {
    const result = await dispatcher.verify(command, policies.acceptance, task, worktreeOf(task)?.root)
    if (result.exitCode === 0 && !result.timedOut) continue
    const line = lastLine(result.output)
    return `verify command ${howFailed(result)}: ${labelOf(command)}${line === '' ? '' : ` (${line})`}`
  }
  return null
}

/** Writes a line if the change is still queued as this process knows it. */
async function writeMerging(
  { board }: Dispatcher,
  taskId: string,
  known: Merging,
  draft: (task: Task) => Draft,
): Promise<boolean> {
  const lines = await board.write((state) => {
    const task = state.tasks.get(taskId)
    const now = task === undefined ? null : queuedMerge(task)
    if (task === undefined || now?.commit !== known.commit) return []
    return [draft(task)]
  })
  return lines.length > 0
}

function mergedDraft(
  task: Task,
  { commit: accepted, base, branch, candidates }: Merging,
  result: { readonly commit: string; readonly from?: string },
  { actor }: Dispatcher,
): Draft {
  const merged = { ...result, base, branch, commits: [...new Set([accepted, ...candidates, result.commit])] }
  const payload = { merging: null, merged, reasonCode: null, ...recoveryCleared }
  return { taskId: task.taskId, type: 'task_done', actor, payload }
}

/** Blocks the task with the reason. The worktree stays. */
async function stopMerge(
  dispatcher: Dispatcher,
  { recovery }: DispatchPolicies,
  taskId: string,
  known: Merging,
  { reasonCode, detail, byAgent }: MergeStop,
): Promise<Merged> {
  const { actor, clock, alerts } = dispatcher
  let needsPerson = false
  const isWritten = await writeMerging(dispatcher, taskId, known, (task) => {
    const nowMs = clock.wallMs()
    const failure = { taskId, reasonCode, assignee: task.runs.at(-1)?.agent ?? task.assignee ?? '' }
    const decision = byAgent ? recoverSame(recovery, recoveryOf(task, reasonCode), failure, nowMs) : null
    const entry = decision?.entry ?? handoffEntry(recovery, taskId, reasonCode, nowMs, 'escalate')
    needsPerson = entry.action !== 'retry'
    const last = spawnOf(task)
    const error = detail.slice(0, reasonMaxChars)
    const { nextAssignee, action, recoveryState } = entry
    const about = decision === null ? { reasonCode, nextAssignee, action, recoveryState } : recoveryFields(decision)
    const payload = {
      reason: `${reasonCode}: ${error}`.slice(0, reasonMaxChars),
      reasonCode,
      merging: { ...queuedMerge(task), state: 'stopped' },
      // The next prompt says what the last run lacks.
      ...(last === null ? {} : { spawn: { ...last, ...about, error } }),
      ...recoveryPayload(task, entry),
    }
    return { taskId, type: 'task_blocked', actor, payload }
  })
  if (isWritten && needsPerson) alerts.raise(closedAlert(dispatcher.board.state.tasks.get(taskId)!))
  return isWritten ? 'stopped' : 'later'
}

/** Merges until the signal fires: when a change of the board queues one, and at the interval. */
export function startMerges(dispatcher: Dispatcher, signal: AbortSignal): Promise<void> {
  const { board, clock, log, settings } = dispatcher
  const wake = makeWake(clock)
  const release = board.onChange(() => {
    if (queuedMerges(board.state).length > 0) wake.now()
  })
  const step = async () => {
    if (queuedMerges(board.state).length > 0) await mergeQueued(dispatcher, await dispatcher.policies())
  }
  return loop({ name: 'merges', intervalMs: settings.intervalMs, clock, log, signal }, step, wake).then(release)
}
