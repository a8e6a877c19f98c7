/** A repository with a board in memory whose tasks run in worktrees, and the agents of its tests. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import type { Dispatcher } from '../../../src/board/dispatch/dispatcher.js'
import { defaultAcceptance } from '../../../src/board/policies/acceptance-policy.js'
import { defaultWorkspace, type WorkspacePolicy } from '../../../src/board/policies/workspace.js'
import type { SpawnRequest } from '../../../src/board/ports.js'
import { openWorktrees, type Worktrees } from '../../../src/ports/git/worktrees.js'
import { newRepository, temporaryFolder, type TestRepository } from '../git-repository.js'
import { dispatcherOf, makeWorld, policies, type World } from './dispatcher.js'

export const never = new AbortController().signal

export interface Place {
  readonly world: World
  readonly repository: TestRepository
  readonly worktrees: Worktrees
  readonly dispatcher: () => Dispatcher
}

export async function place(policy: Partial<WorkspacePolicy> = {}, repository?: TestRepository): Promise<Place> {
  const used = repository ?? (await newRepository())
  const acceptance = { ...defaultAcceptance, default: { ...defaultAcceptance.default, minFiles: 1 } }
  const workspace: WorkspacePolicy = { ...defaultWorkspace, workspace: 'worktree', merge: 'auto', ...policy }
  const world = makeWorld({ ...policies, acceptance, workspace })
  const worktrees = openWorktrees({ root: used.path, folder: join(await temporaryFolder(), 'w'), timeoutMs: 20_000 })
  return { world, repository: used, worktrees, dispatcher: () => dispatcherOf(world, { worktrees: () => worktrees }) }
}

/** The agent: writes files into its worktree and claims them. */
export const writing = (files: Readonly<Record<string, string>>) => (request: SpawnRequest) => {
  for (const [file, text] of Object.entries(files)) writeFileSync(join(request.worktree!.root, file), text)
  return { deliverable: { summary: 'done', files: Object.keys(files) } }
}

export const subjects = ({ repository }: Place, branch = 'main') =>
  repository.git('log', '--format=%s', branch).split('\n')
export const leftovers = ({ repository }: Place) => ({
  worktrees: repository.git('worktree', 'list').split('\n').length - 1,
  branches: repository.git('branch', '--list', 'bellwether/*'),
  kept: repository.git('for-each-ref', 'refs/bellwether'),
})
export const nothingLeft = { worktrees: 0, branches: '', kept: '' }

export async function ran(at: Place, script: (request: SpawnRequest) => object, taskId = 'T-1') {
  at.world.kernel.script = script
  return dispatch(at.dispatcher(), taskId, never)
}
