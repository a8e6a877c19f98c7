/** Board and kernel together, on real files and a real database: tasks become turns, and evidence decides. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAutopilot } from '../../../src/board/dispatch/autopilot.js'
import { localEvidence } from '../../../src/board/dispatch/evidence/local-evidence.js'
import { createRequest } from '../../../src/board/dispatch/requests.js'
import { openDispatcher } from '../../../src/runtime/parts/board/board.js'
import { openTaskRoot } from '../../../src/runtime/parts/board/task-root.js'
import { kernelSpawner } from '../../../src/runtime/parts/board/spawner.js'
import { loadSettings } from '../../../src/settings/load.js'
import { runWorker } from '../../../src/worker/loop.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { silentBell } from '../../support/silent-bell.js'

const t = kernelPerFile({ time: 'real' })
let root = ''
beforeAll(async () => {
  await t.agents('coder', 'debugger')
  root = await mkdtemp(join(tmpdir(), 'bellwether-with-kernel-'))
})
afterAll(async () => {
  await rm(root, { recursive: true, force: true })
})

/** The coder claims a file that it did not write; the debugger writes its file. */
async function work(agentId: string, instruction: string): Promise<string> {
  const file = /write (\S+)/.exec(instruction)?.[1] ?? 'nothing.txt'
  if (agentId === 'debugger' || !file.startsWith('false-')) await writeFile(join(root, file), agentId)
  return JSON.stringify({ summary: `wrote ${file}`, files: [file], usage: { total_tokens: 7 } })
}

it('[H6.3] [H6.4] [H7.2] a missing claimed file is detected, and the next agent of the chain does the task', async () => {
  const env = { BELLWETHER__BOARD__AUTOPILOT_INTERVAL_SECONDS: '0.1' }
  await mkdir(join(root, 'config'))
  const patience = { default: { cooldownSec: 0 }, reasonPolicies: { incomplete_output: { cooldownSec: 0 } } }
  await writeFile(join(root, 'config', 'recovery-policy.json'), JSON.stringify(patience))
  const settings = loadSettings({ folder: root, env }).board
  const opened = await openTaskRoot({ root, owner: 'test', settings, log: quietLog })
  const stop = new AbortController()
  const working = await hire(stop.signal)
  const dispatcher = openDispatcher(opened, {
    spawner: kernelSpawner({ kernel: t.kernel, projectId: project, clock: systemClock, log: quietLog }),
    evidence: localEvidence(opened.board.root, opened.ids),
    actor: 'autopilot',
  })
  await createRequest(dispatcher, { title: 'Honest', instruction: 'write honest.txt' }, 'ann')
  await createRequest(dispatcher, { title: 'False', instruction: 'write false-1.txt', dependencies: ['T-1'] }, 'ann')
  const autopilot = startAutopilot(dispatcher, opened.caches, stop.signal)
  const task = (id: string) => opened.board.state.tasks.get(id)
  await until('both are done', async () => (task('T-2')?.status === 'done' ? true : undefined))
  expect(task('T-1')?.runs).toMatchObject([{ agent: 'coder', outcome: 'success', tokenUsage: 7 }])
  expect(task('T-2')?.runs).toMatchObject([
    { agent: 'coder', reasonCode: 'incomplete_output', tokenUsage: 7 },
    { agent: 'debugger', tokenUsage: 7 },
  ])
  stop.abort()
  await Promise.all([autopilot.ended, working.ended])
  await opened.board.close()
  // One turn per run, each ended once and found by the id of its intent line.
  const turns = await t.all<{ inbox_id: string; outcome: string }>(
    'select inbox_id, outcome from state.turns order by 1',
  )
  const runs = [...opened.board.state.tasks.values()].flatMap((one) => one.runs.map(({ runId }) => runId))
  expect(turns.map((turn) => turn.inbox_id)).toEqual(runs.toSorted())
  expect(turns.every(({ outcome }) => outcome === 'success')).toBe(true)
})

function hire(signal: AbortSignal) {
  return runWorker({
    kernel: t.kernel,
    bell: silentBell,
    clock: systemClock,
    log: quietLog,
    signal,
    workerId: 'worker-1',
    workerTarget: target,
    agent:
      ({ agentId }) =>
      async (context) => {
        const { context: cards } = await context.hydrate()
        const prompt = cards.map((card) => (card.content as { text?: string }).text ?? '').join('\n')
        return { deliver: { text: await work(agentId, prompt) } }
      },
    settings: { concurrency: 4, suspendTimeoutSeconds: 30, resumeLeaseSeconds: 30, inboxProcessingTimeoutSeconds: 30 },
    loop: {
      pollSeconds: 0.05,
      beatSeconds: 5,
      watchdogIntervalSeconds: 5,
      inboxProcessingTimeoutSeconds: 30,
      maxDeaths: 3,
      resumeLeaseSeconds: 30,
      drainSeconds: 5,
    },
  })
}
