/**
 * Inspects the files that a deliverable claims and runs the verify commands, for acceptance. Every call has a timeout. A view
 * that does not answer in time means "not ready", never "missing". Commands come from the policy and the task only, and do
 * not run while a claimed file is missing or not ready.
 */
import type { Ids } from '../../../ports/ids.js'
import { retryCall } from '../../../ports/retry.js'
import type { CommandResult } from '../../../ports/processes/run-command.js'
import type { Dispatcher, DispatchPolicies } from '../dispatcher.js'
import type { FileEvidence } from '../../ports.js'
import type { ChangedFile } from '../../../ports/git/snapshot.js'
import { localEvidence } from './local-evidence.js'
import { claimsOf, commandsFor, type Claims, type Deliverable } from '../../policies/acceptance.js'
import { textField } from '../../tasks/task-fields.js'
import type { Task } from '../../log/task.js'

export interface CollectedEvidence {
  readonly claims: Claims
  readonly files: readonly FileEvidence[]
  readonly commands: readonly CommandResult[]
  /** Claimed files that are not ready; empty if one is missing for certain. */
  readonly waitFor: readonly string[]
}

export async function collectEvidence(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  task: Task,
  deliverable: Deliverable | null,
  work: WorktreeWork | null = null,
): Promise<CollectedEvidence> {
  const claims = claimsOf(deliverable, work?.root ?? dispatcher.board.root)
  const files = await inspectFiles(dispatcher, policies, claims.files, textField(task, 'changeToken'), work)
  const foundByPath = new Map(files.map((file) => [file.path, file.found]))
  const isRejected = claims.refused.length > 0 || files.some((file) => file.found === 'missing')
  const waitFor = isRejected
    ? []
    : claims.files.filter((path) => (foundByPath.get(path) ?? 'not_ready') === 'not_ready')
  const commands: CommandResult[] = []
  if (!isRejected && waitFor.length === 0) {
    for (const command of commandsFor(policies.acceptance, task)) {
      const result = await dispatcher.verify(command, policies.acceptance, task, work?.root)
      commands.push(result)
      if (result.exitCode !== 0) break
    }
  }
  return { claims, files, commands, waitFor }
}

/** The work of a task in its worktree, all of it committed. */
export interface WorktreeWork {
  /** The task root in the worktree. */
  readonly root: string
  readonly commit: string
  /** The commit where the task left its base. */
  readonly from: string
  readonly files: readonly ChangedFile[]
}

/** In a worktree, git says which files changed: those that differ from the base, also if an earlier run of the task changed them. */
async function inspectWorktree(
  work: WorktreeWork,
  paths: readonly string[],
  ids: Ids,
): Promise<readonly FileEvidence[]> {
  const changed = new Set(work.files.map(({ path }) => path))
  const files = await localEvidence(work.root, ids).inspect(paths, null)
  return files.map((file) => ({ ...file, changedSince: changed.has(file.path) }))
}

async function inspectFiles(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  paths: readonly string[],
  since: string | null,
  work: WorktreeWork | null,
): Promise<readonly FileEvidence[]> {
  if (paths.length === 0) return []
  try {
    // Hashing files takes longer than other local calls.
    const call = { kind: 'synthesis', name: 'inspecting the evidence' } as const
    return await retryCall(
      policies.calls,
      call,
      (signal) =>
        work === null
          ? dispatcher.evidence.inspect(paths, since, signal)
          : inspectWorktree(work, paths, dispatcher.ids),
      dispatcher,
    )
  } catch (error) {
    dispatcher.log.warn({ err: error, taskPaths: paths.length }, 'cannot inspect the evidence')
    return paths.map((path) => ({ path, found: 'not_ready' as const }))
  }
}
