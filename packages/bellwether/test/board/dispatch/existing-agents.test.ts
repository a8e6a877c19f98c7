/** The board believes an agent that reports failure, and gives tasks only to agents of the project. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { loadPolicies } from '../../../src/board/policies/load.js'
import { defaultRecovery } from '../../../src/board/policies/recovery.js'
import { initFolder } from '../../../src/cli/start/init-folder.js'
import { created, dispatcherOf, makeWorld, noCaches, put, never } from '../../support/board/dispatcher.js'
import { recordedLog } from '../../support/recorded-log.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

it('[H6.5] a task whose agent reports failure is not done, although the files that it claims have changed', async () => {
  const reports = [{ status: 'failed' }, { status: 'Blocked' }, { ok: false }, { success: false }, { error: 'boom' }]
  for (const [index, report] of reports.entries()) {
    const world = makeWorld()
    const taskId = `T-${index + 1}`
    await put(world, created(taskId))
    world.files.set('f', 'present')
    world.kernel.script = () => ({ deliverable: { ...report, files: ['f'] } })
    const { status, spawn } = await dispatch(dispatcherOf(world), taskId, never)
    expect([report, status, spawn?.action]).toEqual([report, 'blocked', 'retry'])
  }
})

it('[H6.5] [H6.6] recovery skips chain members that are not agents of the project, and names each once', async () => {
  const world = makeWorld()
  world.kernel.agents = ['coder', 'invest-analyst']
  world.kernel.script = () => ({ outcome: 'failed', error: 'it broke', deliverable: null })
  await put(world, created('T-1'), created('T-2'))
  const { log, lines } = recordedLog()
  const dispatcher = dispatcherOf(world, { log })
  for (const taskId of ['T-1', 'T-2']) {
    const { spawn } = await dispatch(dispatcher, taskId, never)
    expect(spawn).toMatchObject({ agent: 'coder', action: 'retry', nextAssignee: 'invest-analyst' })
  }
  expect(lines.filter(({ message }) => message.includes('not agents of the project'))).toMatchObject([
    { fields: { agents: ['debugger'] } },
  ])
})

it('[H6.6] a chain without any agent of the project leads to a person', async () => {
  const world = makeWorld()
  world.kernel.agents = ['writer']
  world.kernel.script = () => ({ outcome: 'failed', error: 'it broke', deliverable: null })
  await put(world, created('T-1', { agent: 'writer' }))
  const { spawn } = await dispatch(dispatcherOf(world), 'T-1', never)
  expect(spawn).toMatchObject({ agent: 'writer', action: 'human', nextAssignee: 'human' })
})

it('[H6.6] an agent that does not exist does not try again, although the same agent would come first', async () => {
  const world = makeWorld({ recovery: { ...defaultRecovery, recoveryChain: ['human'], sameAgentFirst: true } })
  world.kernel.agents = ['coder']
  world.kernel.script = () => ({ outcome: 'failed', error: 'unknown agent', deliverable: null })
  await put(world, created('T-1', { agent: 'codr' }), created('T-2', { agent: 'coder' }))
  const dispatcher = dispatcherOf(world)
  expect((await dispatch(dispatcher, 'T-1', never)).spawn).toMatchObject({ agent: 'codr', action: 'human' })
  expect((await dispatch(dispatcher, 'T-2', never)).spawn).toMatchObject({ agent: 'coder', nextAssignee: 'coder' })
})

it('[H5.1] the hint of the reference chooses the first agent if it is an agent of the project', async () => {
  const world = makeWorld()
  world.kernel.agents = ['coder', 'writer']
  await put(world, created('T-1', { assigneeHint: 'Writer' }), created('T-2', { assigneeHint: 'andrew' }))
  world.kernel.script = () => ({})
  const dispatcher = dispatcherOf(world)
  expect((await dispatch(dispatcher, 'T-1', never)).spawn?.agent).toBe('writer')
  expect((await dispatch(dispatcher, 'T-2', never)).spawn?.agent).toBe('coder')
})

it('[H6.6] init writes a recovery chain of agents that exist; the default chain stays that of the reference', async () => {
  const root = tempFolder('init')
  const { created: files } = initFolder(root)
  expect(files).toContain('config/recovery-policy.json')
  const { recovery } = await loadPolicies(root)
  expect(recovery).toMatchObject({ recoveryChain: ['human'], sameAgentFirst: true })
  for (const agent of recovery.recoveryChain.filter((name) => name !== 'human'))
    expect(await readFile(join(root, 'agents', `${agent}.md`), 'utf8')).toContain('description:')
  expect(defaultRecovery.recoveryChain).toEqual(['coder', 'debugger', 'invest-analyst', 'human'])
})

it('[H6.6] the autopilot starts no task until the project has agents, and says so once', async () => {
  const world = makeWorld()
  world.kernel.agents = []
  await put(world, created('T-1'))
  const { log, lines } = recordedLog()
  const dispatcher = dispatcherOf(world, { log })
  for (let step = 0; step < 2; step += 1) expect((await autopilotStep(dispatcher, noCaches)).started).toEqual([])
  expect([world.kernel.calls, dispatcher.board.state.tasks.get('T-1')?.status]).toEqual([[], 'pending'])
  expect(lines.filter(({ message }) => message.includes('no agent is registered yet'))).toHaveLength(1)
  world.kernel.agents = ['coder']
  expect((await autopilotStep(dispatcher, noCaches)).started).toMatchObject([{ taskId: 'T-1' }])
})
