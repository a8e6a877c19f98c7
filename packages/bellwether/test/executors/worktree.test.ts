/** A task in a git worktree with a real kernel and worker: the agent's file asks for it, and the command runs in it. */
import { existsSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { dispatch } from '../../src/board/dispatch/dispatch.js'
import { createRequest, patchRequest } from '../../src/board/dispatch/requests.js'
import type { Dispatcher } from '../../src/board/dispatch/dispatcher.js'
import { repositoryAt, type TestRepository } from '../support/git-repository.js'
import { project, target } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { openBoardWorker } from './board-worker.js'
import { openCommandSetup, type CommandSetup } from './command-setup.js'

let b: CommandSetup
let repository: TestRepository
let dispatcher: Dispatcher
const never = new AbortController().signal
let dataDir = ''
let close = async () => {}

beforeAll(async () => {
  b = await openCommandSetup()
  dataDir = await testFolder()
  repository = repositoryAt(b.folder)
  repository.git('init', '-q', '-b', 'main')
  repository.commit('start', { 'app/a.txt': 'one\n', '.gitignore': 'state/\nwork/\n' })
  await b.t.agents('coder')
  const profile = { projectId: project, profileId: 'coder', name: 'coder', workerTarget: target }
  await b.t.kernel.putProfile({ ...profile, spec: { workspace: 'worktree', merge: 'review' } })
  const agent = { projectId: project, agentId: 'coder', profileId: 'coder', workerTarget: target }
  await b.t.kernel.putAgents([{ ...agent, status: 'active', metadata: {} }])
  const command = `cat > prompt.txt; pwd > place.txt; echo '{"files": ["app/prompt.txt", "app/place.txt"]}'`
  const board = { root: b.folder, dataDir, commandOf: () => ({ command, cwd: 'app' }) }
  ;({ dispatcher, close } = await openBoardWorker(b, board))
})
afterAll(async () => {
  await close()
  await b.close()
  await rm(dataDir, { recursive: true, force: true })
})

it('a command runs in the worktree that its agent file asks for, in its own folder there, and a person merges the change', async () => {
  const { taskId } = await createRequest(dispatcher, { title: 'Write', agent: 'coder' }, 'ann')
  expect(await dispatch(dispatcher, taskId, never)).toMatchObject({ status: 'review' })
  expect(existsSync(join(b.folder, 'app/place.txt'))).toBe(false)
  expect(await patchRequest(dispatcher, taskId, { action: 'merge' }, 'ann')).toMatchObject({ status: 'done' })
  const place = readFileSync(join(b.folder, 'app/place.txt'), 'utf8').trim()
  expect(place).toBe(join(dataDir, 'worktrees', taskId, 'app'))
  expect(readFileSync(join(b.folder, 'app/prompt.txt'), 'utf8')).toContain('git worktree of your own')
  expect(existsSync(place)).toBe(false)
  expect(repository.git('branch', '--list')).toBe('* main')
})
