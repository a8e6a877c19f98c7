/**
 * Decides where the run of a task works: in the project folder, or in a git worktree of its own, and what happens to its change after
 * acceptance. The task decides, else the file of its agent, else the policy. Pure.
 */
import { defined } from '@bellwether/base'
import { branchPattern, mergeModes, workspaceKinds, type MergeMode, type WorkspaceKind } from '@bellwether/protocol'
import { nullable, oneOf, partial, strictObject, text, valid, type ValueOf } from '../../settings/shape.js'
import type { Task } from '../log/task.js'
import { bounds, type PolicyFile } from './shape.js'

const branch = text({ accepts: (name) => branchPattern.test(name), wanted: 'the name of a branch' })

const policyShape = strictObject({
  workspace: oneOf(workspaceKinds),
  /** The branch that worktrees are made from and merged into; null: the one that is checked out. */
  base: nullable(branch),
  merge: oneOf(mergeModes),
  /** Whether a task that wants a worktree runs in the project folder if there is no git repository or no commit. */
  withoutGit: oneOf(['project', 'refuse']),
  /** The time limit of one git command. */
  gitTimeoutSec: bounds.number(1, 86_400),
})
export type WorkspacePolicy = ValueOf<typeof policyShape>

export const defaultWorkspace: WorkspacePolicy = {
  workspace: 'project',
  base: null,
  merge: 'review',
  withoutGit: 'project',
  gitTimeoutSec: 120,
}

export const workspaceFile: PolicyFile<WorkspacePolicy> = {
  path: 'config/workspace-policy.json',
  shape: partial(policyShape),
  defaults: defaultWorkspace,
  about:
    'Where agents work: "project", the folder itself, or "worktree", a git worktree per task, merged into "base" (null: the branch that is checked out) "auto", after a "review", or "never".',
}

/** What an agent file says. */
export interface AgentWorkspace {
  readonly workspace?: WorkspaceKind | undefined
  readonly base?: string | undefined
  readonly merge?: MergeMode | undefined
}

export interface WantedWorkspace {
  readonly workspace: WorkspaceKind
  readonly base: string | null
  readonly merge: MergeMode
}

const fieldShapes = { workspace: oneOf(workspaceKinds), base: branch, merge: oneOf(mergeModes) }

export function wantedWorkspace(
  policy: WorkspacePolicy,
  { fields }: Pick<Task, 'fields'>,
  agent: AgentWorkspace,
): WantedWorkspace {
  const { workspace, base, merge } = fieldShapes
  const own = defined({
    workspace: valid(workspace, fields['workspace']),
    base: valid(base, fields['base']),
    merge: valid(merge, fields['merge']),
  })
  const { workspace: kind, base: from, merge: mode } = policy
  const wanted = { workspace: kind, base: from, merge: mode, ...defined(agent), ...own }
  // A review by a person comes before every merge.
  return fields['review'] === true && wanted.merge === 'auto' ? { ...wanted, merge: 'review' } : wanted
}
