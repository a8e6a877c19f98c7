/**
 * Opens the workspace of a run before its intent line: the project folder, or the git worktree of its task. A worktree that cannot be made
 * blocks the task with the reason; without a repository the policy decides. settle.ts reads the work, merge.ts merges it, and
 * `releaseWorktree` removes it.
 */
import { errorMessage } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { retryCall } from '../../ports/retry.js'
import type { Worktrees } from '../../ports/git/worktrees.js'
import { claimOf, mergingOf, worktreeOf, type TaskWorktree } from '../tasks/task-fields.js'
import { closedAlert } from '../tasks/person-alerts.js'
import { handoffEntry } from '../tasks/reminders.js'
import { recoverSame, recoveryOf, recoveryPayload } from '../policies/recovery.js'
import { defaultWorkspace, wantedWorkspace, type AgentWorkspace } from '../policies/workspace.js'
import type { Task } from '../log/task.js'
import type { Dispatcher, DispatchPolicies } from './dispatcher.js'

export interface OpenedWorkspace {
  /** Null: the project folder. */
  readonly worktree: TaskWorktree | null
  /** Why a task that wants a worktree runs in the project folder. */
  readonly instead?: string
}

export interface RefusedWorkspace {
  readonly refused: string
  /** Whether a later try may succeed. */
  readonly isTemporary: boolean
}

const blockedCode = 'workspace_failed'
const reasonMaxChars = 2_000

export const worktreesOf = ({ worktrees }: Dispatcher, { workspace }: DispatchPolicies): Worktrees | undefined =>
  worktrees?.((workspace ?? defaultWorkspace).gitTimeoutSec * 1_000)

export async function openWorkspace(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  task: Task,
  agent: string,
): Promise<OpenedWorkspace | RefusedWorkspace> {
  const worktrees = worktreesOf(dispatcher, policies)
  if (worktrees === undefined) return { worktree: null }
  const policy = policies.workspace ?? defaultWorkspace
  try {
    const wanted = wantedWorkspace(policy, task, await agentWorkspace(dispatcher, policies, agent))
    if (wanted.workspace !== 'worktree') return { worktree: null }
    const opened = await worktrees.open(task, wanted.base)
    if (!('missing' in opened)) {
      const { branch, base, top, root } = opened
      return { worktree: { branch, base, top, root, merge: wanted.merge } }
    }
    if (policy.withoutGit === 'project') {
      dispatcher.log.warn(
        { taskId: task.taskId, why: opened.missing },
        'no worktree; the task runs in the project folder',
      )
      return { worktree: null, instead: opened.missing }
    }
    const why = `Cannot make a worktree for task "${task.taskId}": ${opened.missing}. Create a commit there, or set "withoutGit" to "project" in config/workspace-policy.json.`
    return { refused: why, isTemporary: false }
  } catch (error) {
    if (!(error instanceof Terminal) && !(error instanceof Retryable)) throw error
    const hint = error.hint === undefined ? '' : ` ${error.hint}`
    return { refused: `${error.message}${hint}`, isTemporary: error instanceof Retryable }
  }
}

async function agentWorkspace(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  agent: string,
): Promise<AgentWorkspace> {
  const call = { kind: 'command_routing', name: `reading the workspace of agent ${agent}` } as const
  return retryCall(policies.calls, call, () => dispatcher.spawner.workspaceOf(agent), dispatcher)
}

/** Blocks the claimed task. Returns why it was not started. */
export async function refuseWorkspace(
  dispatcher: Dispatcher,
  { recovery }: DispatchPolicies,
  { taskId, agent, claimId }: { readonly taskId: string; readonly agent: string; readonly claimId: string },
  { refused, isTemporary }: RefusedWorkspace,
): Promise<string> {
  const { board, clock, actor } = dispatcher
  const lines = await board.write((state) => {
    const task = state.tasks.get(taskId)
    if (task?.status !== 'claimed' || claimOf(task)?.id !== claimId) return []
    const nowMs = clock.wallMs()
    const failure = { taskId, reasonCode: blockedCode, assignee: agent }
    const entry = isTemporary
      ? recoverSame(recovery, recoveryOf(task, blockedCode), failure, nowMs).entry
      : handoffEntry(recovery, taskId, blockedCode, nowMs, 'escalate')
    const reason = `${blockedCode}: ${refused}`.slice(0, reasonMaxChars)
    const payload = { reason, reasonCode: blockedCode, claim: null, ...recoveryPayload(task, entry) }
    return [{ taskId, type: 'task_blocked', actor, payload }]
  })
  if (lines.length > 0 && !isTemporary) dispatcher.alerts.raise(closedAlert(board.state.tasks.get(taskId)!))
  return refused
}

/** What the intent line says about the workspace; nothing, if neither this run nor the last one has a worktree. */
export function workspacePayload(
  task: Task,
  { worktree, instead }: OpenedWorkspace,
): Readonly<Record<string, unknown>> {
  const hadWorktree =
    worktreeOf(task) !== null || mergingOf(task) !== null || typeof task.fields['workspaceNote'] === 'string'
  if (worktree === null && instead === undefined && !hadWorktree) return {}
  return { worktree, merging: null, workspaceNote: instead ?? null }
}

/** Removes the worktree of a finished task. What is not merged stays on its branch. Best effort: maintenance tries again. */
export async function releaseWorktree(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  taskId: string,
): Promise<boolean> {
  const task = dispatcher.board.state.tasks.get(taskId)
  const worktrees = worktreesOf(dispatcher, policies)
  if (task === undefined || worktrees === undefined || worktreeOf(task) === null) return false
  if (task.status !== 'done' && task.status !== 'failed') return false
  try {
    await closeWorktree(worktrees, task)
    return true
  } catch (error) {
    dispatcher.log.warn(
      { err: error, taskId },
      'cannot remove the worktree of a finished task; maintenance tries again',
    )
    return false
  }
}

/** The commits that the log says are on the base. */
function mergedCommits({ fields }: Task): readonly string[] {
  const { commits } = (fields['merged'] ?? {}) as { readonly commits?: unknown }
  return Array.isArray(commits) ? commits.filter((commit) => typeof commit === 'string') : []
}

async function closeWorktree(worktrees: Worktrees, task: Task): Promise<void> {
  if (task.status === 'done') return void (await worktrees.close(task, { merged: mergedCommits(task), isFinal: true }))
  // A person may retry a failed task: what its agent left is on the branch.
  const agent = task.runs.at(-1)?.agent ?? 'agent'
  if ((await worktrees.find(task)) !== undefined)
    await worktrees.snapshot(task, { agent, message: `${task.taskId}: unfinished work` })
  await worktrees.close(task, { merged: [], isFinal: false })
}

/** Removes the worktrees of all finished tasks, and of tasks that the log does not have. Returns how many. */
export async function sweepWorktrees(dispatcher: Dispatcher): Promise<number> {
  const worktrees = worktreesOf(dispatcher, await dispatcher.policies())
  const records = (await worktrees?.list()) ?? []
  if (worktrees === undefined || records.length === 0) return 0
  // After the list: the line of a task is older than its worktree.
  const state = await dispatcher.board.sync()
  let removed = 0
  for (const { taskId, createdAt } of records) {
    const task = state.tasks.get(taskId)
    const isKnown = task !== undefined && task.createdAt === createdAt
    if (isKnown && task.status !== 'done' && task.status !== 'failed') continue
    try {
      if (isKnown) await closeWorktree(worktrees, task)
      else await worktrees.close({ taskId, createdAt }, { merged: [], isFinal: true })
      removed += 1
    } catch (error) {
      dispatcher.log.warn({ err: errorMessage(error), taskId }, 'cannot remove the worktree of a finished task')
    }
  }
  return removed
}
