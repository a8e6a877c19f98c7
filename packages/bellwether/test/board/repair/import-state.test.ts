/** A task root of the reference with its state files: attempts and usage are imported once and continue from there. */
import { mkdir, readFile, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { writeCaches } from '../../../src/board/dispatch/caches.js'
import type { Spawner } from '../../../src/board/ports.js'
import { budgetsOf } from '../../../src/board/policies/budget.js'
import { recoveryOf } from '../../../src/board/policies/recovery.js'
import { localEvidence } from '../../../src/board/dispatch/evidence/local-evidence.js'
import { retryTask } from '../../../src/board/tasks/task-commands.js'
import { openDispatcher } from '../../../src/runtime/parts/board/board.js'
import { openTaskRoot } from '../../../src/runtime/parts/board/task-root.js'
import { loadSettings } from '../../../src/settings/load.js'
import { fakeKernel } from '../../support/board/fake-kernel.js'
import { quietLog } from '../../support/quiet-log.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

let root = ''
beforeEach(async () => {
  root = tempFolder('import')
  await mkdir(join(root, 'state'))
  const line = (n: number, taskId: string, type: string, payload: object) =>
    `${JSON.stringify({ eventId: `e${n}`, taskId, type, messageType: '[TASK]', actor: 'broadcaster', at: '2026-02-27T00:00:00Z', payload })}\n`
  const log = [
    line(1, 'T-001', 'task_created', { title: 'Failed once', owner: 'coder' }),
    line(2, 'T-001', 'task_claimed', { owner: 'coder', from: 'pending', to: 'claimed' }),
    line(3, 'T-001', 'task_blocked', { from: 'claimed', to: 'blocked', reason: 'recovery_pending:debugger' }),
    line(4, 'T-002', 'task_created', { title: 'Spent' }),
    line(5, 'T-003', 'task_created', { title: 'Untouched' }),
  ]
  await writeFile(join(root, 'state', 'tasks.jsonl'), log.join(''))
})

const stateFile = (name: string, contents: unknown) =>
  writeFile(join(root, 'state', name), typeof contents === 'string' ? contents : JSON.stringify(contents, undefined, 2))
const recovery = {
  entries: {
    'T-001|incomplete_output': {
      attempt: 1,
      nextAssignee: 'debugger',
      action: 'retry',
      recoveryState: 'recovery_scheduled',
      cooldownUntilTs: 1_772_150_520,
    },
    'T-404|spawn_failed': {
      attempt: 1,
      nextAssignee: 'debugger',
      action: 'retry',
      recoveryState: 'x',
      cooldownUntilTs: 0,
    },
  },
  updatedAt: '2026-02-27T00:00:00Z',
}
const budget = {
  entries: {
    'T-001|coder': { tokenUsage: 900, elapsedMs: 1_500, retryCount: 1, updatedAt: '2026-02-27T00:00:00Z' },
    'T-002|coder': { tokenUsage: 12_000, elapsedMs: 10, retryCount: 1, updatedAt: '2026-02-27T00:00:00Z' },
  },
}

async function opened(readOnly = false) {
  const settings = loadSettings({ folder: root, env: {} }).board
  const open = await openTaskRoot({ root, owner: 'test', settings, log: quietLog, readOnly })
  onTestFinished(() => open.board.close().catch(() => undefined))
  return open
}
const lines = async () => (await readFile(join(root, 'state', 'tasks.jsonl'), 'utf8')).trimEnd().split('\n')

describe('the reference’s state files', () => {
  it('[H6.2] [H7.2] state files are imported once as lines of the log, and opening again changes nothing', async () => {
    await Promise.all([stateFile('recovery.state.json', recovery), stateFile('budget.state.json', budget)])
    const { board } = await opened()
    const task = board.state.tasks.get('T-001')!
    expect(recoveryOf(task, 'incomplete_output')).toMatchObject({
      attempt: 1,
      nextAssignee: 'debugger',
      action: 'retry',
    })
    expect(budgetsOf(task).get('coder')).toMatchObject({ tokenUsage: 900, elapsedMs: 1_500, retryCount: 1 })
    expect(task).toMatchObject({
      status: 'blocked',
      fields: { reasonCode: 'incomplete_output', importedState: { recovery: 1, budget: 1 } },
    })
    const after = await lines()
    expect(after).toHaveLength(7)
    expect(after.slice(5).map((text) => JSON.parse(text) as object)).toMatchObject([
      { type: 'task_noted', actor: 'import', taskId: 'T-001' },
      { type: 'task_noted', actor: 'import', taskId: 'T-002' },
    ])
    await board.close()
    for (let time = 0; time < 2; time += 1) await (await opened()).board.close()
    expect(await lines()).toEqual(after)
  })

  it('[H6.3] [H7.3] imported attempts and usage keep counting', async () => {
    await Promise.all([stateFile('recovery.state.json', recovery), stateFile('budget.state.json', budget)])
    await mkdir(join(root, 'config'), { recursive: true })
    await writeFile(join(root, 'config/budget-policy.json'), JSON.stringify({ global: { maxTaskTokens: 12_000 } }))
    const open = await opened()
    const kernel = fakeKernel()
    kernel.script = () => ({ deliverable: { files: ['none.txt'] } })
    const spawner: Spawner = kernel
    const dispatcher = openDispatcher(open, { spawner, evidence: localEvidence(root, open.ids), actor: 'autopilot' })
    await autopilotStep(dispatcher, open.caches)
    await autopilotStep(dispatcher, open.caches)
    const { tasks } = open.board.state
    expect(tasks.get('T-001')?.runs).toMatchObject([{ agent: 'debugger', reasonCode: 'incomplete_output' }])
    expect(recoveryOf(tasks.get('T-001')!, 'incomplete_output')).toMatchObject({ attempt: 2 })
    expect(tasks.get('T-002')).toMatchObject({ status: 'blocked', reason: 'budget_exceeded', runs: [] })
    // The files are now caches of the log; copies of the originals are next to them.
    const written = JSON.parse(await readFile(join(root, 'state', 'recovery.state.json'), 'utf8')) as typeof recovery
    expect(written.entries['T-001|incomplete_output']).toMatchObject({ attempt: 2 })
    const copy = await readFile(join(root, 'state', 'recovery.state.before-import.json'), 'utf8')
    expect(JSON.parse(copy)).toEqual(recovery)
  })

  it('state files are not imported a second time after a person reset the task', async () => {
    await stateFile('recovery.state.json', recovery)
    const { board } = await opened()
    await retryTask({ board, nowMs: () => systemClock.wallMs(), firstAgent: 'coder' }, 'T-001', { by: 'ann' })
    expect(recoveryOf(board.state.tasks.get('T-001')!, 'incomplete_output')).toBeUndefined()
    await board.close()
    const again = await opened()
    expect(recoveryOf(again.board.state.tasks.get('T-001')!, 'incomplete_output')).toBeUndefined()
  })

  it('a stale cache of the board is not imported', async () => {
    await stateFile('recovery.state.json', recovery)
    const open = await opened()
    await writeCaches(open.board, open.caches)
    const stale = await readFile(join(root, 'state', 'recovery.state.json'), 'utf8')
    await retryTask({ board: open.board, nowMs: () => systemClock.wallMs(), firstAgent: 'coder' }, 'T-001', {
      by: 'ann',
    })
    await open.board.close()
    const noted = (await lines()).filter((text) => text.includes('importedState'))
    await writeFile(
      join(root, 'state', 'tasks.jsonl'),
      (await lines())
        .filter((text) => !text.includes('importedState'))
        .map((text) => `${text}\n`)
        .join(''),
    )
    await stateFile('recovery.state.json', stale)
    const { board } = await opened()
    expect(noted).toHaveLength(1)
    expect(recoveryOf(board.state.tasks.get('T-001')!, 'incomplete_output')).toBeUndefined()
  })

  it('state files may be nested, flat, or use other time formats', async () => {
    await stateFile('recovery.state.json', {
      'T-001': {
        spawn_failed: {
          attempt: 2,
          nextAssignee: 'human',
          recoveryState: 'escalated_to_human',
          cooldownUntil: '2026-02-27T00:00:00Z',
        },
      },
    })
    await stateFile('budget.state.json', { 'T-003|debugger': { tokenUsage: 5 }, 'T-001|coder': { tokenUsage: 'many' } })
    const { board } = await opened()
    const { tasks } = board.state
    expect(recoveryOf(tasks.get('T-001')!, 'spawn_failed')).toMatchObject({
      attempt: 2,
      action: 'escalate',
      recoveryState: 'escalated_to_human',
      cooldownUntilTs: 1_772_150_400,
    })
    expect(budgetsOf(tasks.get('T-003')!).get('debugger')).toMatchObject({ tokenUsage: 5, elapsedMs: 0, retryCount: 0 })
    expect(budgetsOf(tasks.get('T-001')!).get('coder')).toBeUndefined()
    expect(await readdir(join(root, 'state'))).toContain('budget.state.before-import.json')
  })

  it('broken, huge, deep or linked state files do no harm and are copied before they are replaced', async () => {
    await writeFile(join(root, 'secret.json'), JSON.stringify(budget))
    await symlink(join(root, 'secret.json'), join(root, 'state', 'budget.state.json'))
    for (const broken of ['{"entries":', '[]', `${'{"a":'.repeat(500)}1${'}'.repeat(500)}`, '\u0000\u00ff']) {
      await stateFile('recovery.state.json', broken)
      const { board } = await opened()
      expect(budgetsOf(board.state.tasks.get('T-001')!).get('coder')).toBeUndefined()
      await board.close()
    }
    expect(await lines()).toHaveLength(5)
    expect(await readFile(join(root, 'state', 'recovery.state.before-import.json'), 'utf8')).toBe('{"entries":')
  })

  it('commands that only read do not import state files', async () => {
    await Promise.all([stateFile('recovery.state.json', recovery), stateFile('budget.state.json', budget)])
    await (await opened(true)).board.close()
    expect(await lines()).toHaveLength(5)
    expect(await readdir(join(root, 'state'))).not.toContain('recovery.state.before-import.json')
  })

  it('state files are imported by one of several processes that open the root at the same time', async () => {
    await Promise.all([stateFile('recovery.state.json', recovery), stateFile('budget.state.json', budget)])
    const all = await Promise.all([opened(), opened(), opened(), opened()])
    for (const { board } of all) await board.close()
    expect((await lines()).filter((text) => text.includes('importedState'))).toHaveLength(2)
  })
})
