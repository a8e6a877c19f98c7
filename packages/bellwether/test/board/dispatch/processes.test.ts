/** The composed dispatcher on a real root: policies from files, hints, a command as agent, maintenance, the loop. */
import { mkdir, readFile, readdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { startAutopilot } from '../../../src/board/dispatch/autopilot.js'
import { commandSpawner } from '../../../src/board/dispatch/command-spawner.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { localEvidence } from '../../../src/board/dispatch/evidence/local-evidence.js'
import { createRequest } from '../../../src/board/dispatch/requests.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { systemMachine } from '../../../src/ports/disk/machine.js'
import { openMaintenance, openDispatcher } from '../../../src/runtime/parts/board/board.js'
import { openTaskRoot } from '../../../src/runtime/parts/board/task-root.js'
import { loadSettings } from '../../../src/settings/load.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { never } from '../../support/board/dispatcher.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

let root = ''
beforeEach(async () => {
  root = tempFolder('composed')
})

async function openComposed(command: string) {
  const settings = loadSettings({ folder: root, env: { BELLWETHER__BOARD__AUTOPILOT_INTERVAL_SECONDS: '0.2' } }).board
  const opened = await openTaskRoot({ root, owner: 'test', settings, log: quietLog })
  onTestFinished(() => opened.board.close())
  const { board, ids } = opened
  const spawner = commandSpawner({
    root: board.root,
    command,
    timeoutMs: 20_000,
    environment: [],
    disk: systemDisk,
    machine: systemMachine,
    clock: systemClock,
    ids,
    log: quietLog,
  })
  const dispatcher = openDispatcher(opened, { spawner, evidence: localEvidence(board.root, ids), actor: 'autopilot' })
  return { opened, dispatcher }
}

const config = async (name: string, contents: object) => {
  await mkdir(join(root, 'config'), { recursive: true })
  await writeFile(join(root, 'config', name), JSON.stringify(contents))
}

describe('a composed dispatcher', () => {
  it('[H8.3] [H8.4] the prompt contains hints, and a failed run writes its lesson and no other file', async () => {
    await config('knowledge-feedback.json', { enabled: true, timeoutMs: 5_000 })
    await mkdir(join(root, 'state'), { recursive: true })
    await writeFile(join(root, 'state', 'lessons-learned.json'), JSON.stringify({ lessons: ['mind the gap'] }))
    const { dispatcher } = await openComposed('cat > prompt.txt; exit 4')
    await createRequest(dispatcher, { title: 'One' }, 'ann')
    const before = await readdir(join(root, 'state'))
    const report = await dispatch(dispatcher, 'T-1', never)
    expect(await readFile(join(root, 'prompt.txt'), 'utf8')).toMatch(
      /<KNOWLEDGE_HINTS>[^]*mind the gap[^]*<\/KNOWLEDGE_HINTS>/,
    )
    expect(report.knowledge).toMatchObject({
      degraded: false,
      knowledgeTags: ['lessons'],
      backfill: { written: true, tags: ['dispatch_failure', expect.stringContaining('spawn_failed')] },
    })
    const taught = JSON.parse(await readFile(join(root, 'state', 'knowledge-feedback.json'), 'utf8')) as object
    expect(JSON.stringify(taught)).toContain('spawn_failed')
    const after = (await readdir(join(root, 'state'))).filter(
      (name) => !before.includes(name) && !name.includes('snapshot'),
    )
    expect(after.sort()).toEqual(['knowledge-feedback.json', 'runs'])
  })

  it('[H8.4] a broken knowledge policy degrades, and the dispatch continues', async () => {
    await config('knowledge-feedback.json', { enabledd: true })
    const { dispatcher } = await openComposed(`echo x > a.txt; echo '{"files":["a.txt"]}'`)
    await createRequest(dispatcher, { title: 'One' }, 'ann')
    const report = await dispatch(dispatcher, 'T-1', never)
    expect(report).toMatchObject({ status: 'done', knowledge: { degraded: true } })
    expect(report.knowledge?.degradeReason).toContain('enabledd')
  })

  it('[H7.3] [H6.3] the policies of the root apply and are read for every dispatch', async () => {
    await config('budget-policy.json', { global: { maxTaskRetries: 1 } })
    await config('recovery-policy.json', { recoveryChain: ['ann-bot', 'bob-bot'], default: { cooldownSec: 0 } })
    const { dispatcher } = await openComposed('exit 1')
    await createRequest(dispatcher, { title: 'One', agent: 'ann-bot' }, 'ann')
    expect((await dispatch(dispatcher, 'T-1', never)).spawn).toMatchObject({
      nextAssignee: 'bob-bot',
      cooldownUntil: null,
    })
    await config('recovery-policy.json', { recoveryChain: ['bob-bot', 'cid-bot'], default: { cooldownSec: 0 } })
    expect((await dispatch(dispatcher, 'T-1', never)).spawn).toMatchObject({
      agent: 'bob-bot',
      nextAssignee: 'cid-bot',
    })
    await config('recovery-policy.json', { recoveryChainn: [] })
    await expect(dispatch(dispatcher, 'T-1', never)).rejects.toMatchObject({ code: 'invalid_policy' })
  })

  it('the autopilot runs a chain of tasks', async () => {
    const { dispatcher, opened } = await openComposed(`echo x >> a.txt; echo '{"files":["a.txt"]}'`)
    await createRequest(dispatcher, { title: 'One' }, 'ann')
    await createRequest(dispatcher, { title: 'Two', dependencies: ['T-1'] }, 'ann')
    await createRequest(dispatcher, { title: 'Three', dependencies: ['T-2'] }, 'ann')
    const stop = new AbortController()
    const autopilot = startAutopilot(dispatcher, opened.caches, stop.signal)
    await until('all are done', async () =>
      [...dispatcher.board.state.tasks.values()].every(({ status }) => status === 'done') ? true : undefined,
    )
    stop.abort()
    await autopilot.ended
    expect((await readFile(join(root, 'a.txt'), 'utf8')).length).toBe(6)
  })

  it('[H4.2] maintenance checks the real root and removes the folders of old runs that are closed', async () => {
    const { dispatcher, opened } = await openComposed(`echo x > a.txt; echo '{"files":["a.txt"]}'`)
    await createRequest(dispatcher, { title: 'One' }, 'ann')
    await dispatch(dispatcher, 'T-1', never)
    await createRequest(dispatcher, { title: 'Two' }, 'ann')
    const line = (type: 'task_claimed' | 'task_started', payload = {}) => ({ taskId: 'T-2', type, actor: 'x', payload })
    await opened.board.write(() => [line('task_claimed'), line('task_started', { run: { agent: 'coder' } })])
    const open = opened.board.state.tasks.get('T-2')!.runs[0]!.runId
    const runs = join(root, 'state', 'runs')
    await mkdir(join(runs, open))
    for (const name of await readdir(runs)) await utimes(join(runs, name), 1, 1)
    expect(await openMaintenance(opened).step()).toMatchObject({
      ran: ['locks', 'snapshot', 'retention', 'worktrees'],
      staleLocks: 0,
      removedRuns: 1,
    })
    expect(await readdir(runs)).toEqual([open])
    expect([...opened.alerts.counts.values()].every((count) => count === 0)).toBe(true)
  })

  it('a root of the reference opens unchanged: its tasks run, and its lines stay', async () => {
    const line = (n: number, taskId: string, type: string, payload: object) =>
      `${JSON.stringify({ eventId: `e${n}`, taskId, type, messageType: '[TASK]', actor: 'broadcaster', at: '2026-02-27T00:00:00Z', payload })}\n`
    const old =
      line(1, 'T-001', 'task_created', { title: 'Old one', status: 'pending' }) +
      line(2, 'T-002', 'task_created', { title: 'Second', dependsOn: ['T-001'] }) +
      line(3, 'T-003', 'task_created', { title: 'Third' }) +
      line(4, 'T-003', 'task_claimed', { owner: 'coder', from: 'pending', to: 'claimed' })
    await mkdir(join(root, 'state'))
    await writeFile(join(root, 'state', 'tasks.jsonl'), old)
    const { dispatcher } = await openComposed(`echo x > a.txt; echo '{"files":["a.txt"]}'`)
    expect((await dispatch(dispatcher, 'T-001', never)).status).toBe('done')
    expect((await dispatch(dispatcher, 'T-002', never)).status).toBe('done')
    await expect(dispatch(dispatcher, 'T-003', never)).rejects.toThrow('coder claimed it')
    expect((await readFile(join(root, 'state', 'tasks.jsonl'), 'utf8')).startsWith(old)).toBe(true)
  })
})
