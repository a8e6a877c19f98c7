/** W2.5, W2.6, W2.2f: a target without live workers keeps its turns, and a worker that is back has time to take them. */
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { systemClock } from '@bellwether/base'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { signIn } from '../../src/kernel/verbs/roster.js'
import { targetsWithoutWorkers, type TargetWithoutWorkers } from '../../src/kernel/reads/gauges.js'
import { watchTargets } from '../../src/pmo/loop.js'
import type { EventStream } from '../../src/ports/stream/stream.js'
import { startPmo } from '../../src/runtime/pmo.js'
import type { Runtime } from '../../src/runtime/runtime.js'
import { loadSettings } from '../../src/settings/load.js'
import { project, target, testKernel, type TestKernel } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, suspendedTurn } from '../support/kernel-turns.js'
import { recordedLog } from '../support/recorded-log.js'
import { silentBell } from '../support/silent-bell.js'
import { until } from '../support/until.js'
import { guardAlone, pass, workerOn } from '../support/watchdog.js'
import { listen } from '../support/servers/listen.js'

let t: TestKernel
beforeEach(async () => {
  t = await testKernel({ isReused: true })
})
afterEach(() => t.drop())

it('[W2.5] [W2.6] [W2.2f] keeps leased, running and suspended turns until a worker is back, which takes them over', async () => {
  await t.agents('leased', 'running', 'suspended')
  const running = await t.running('running')
  const suspended = await suspendedTurn(t, 'suspended', grepCalls('c1'))
  const { agentTurnId: leased } = await t.kernel.enqueue({ projectId: project, agentId: 'leased', instruction: 'x' })
  const guard = guardAlone(t)
  await pass(t, 700, guard)
  for (const turn of [running.agentTurnId, suspended.agentTurnId, leased])
    expect(await turnRow(t, turn)).toMatchObject({ outcome: null })
  expect(await targetsWithoutWorkers(t.db)).toMatchObject([{ worker_target: target, turns: 2 }])
  const { log, lines } = recordedLog()
  const alerted: TargetWithoutWorkers[] = []
  const pmo = () => watchTargets(t.kernel, systemClock, log, (one) => void alerted.push(one))
  const watch = pmo()
  await watch()
  await watch()
  expect(alerted).toMatchObject([{ worker_target: target, turns: 2, waiting_seconds: expect.any(Number) as number }])

  const watcher = workerOn(t, { workerId: 'back', agent: async () => ({ deliver: { text: 'done' } }) })
  // The worker is seen before it claims: nothing is ended in between.
  await watcher.step()
  await guard.step()
  expect(await targetsWithoutWorkers(t.db)).toEqual([])
  await watch()
  expect(lines).toMatchObject([{ level: 'info', fields: { target } }])
  const works = {
    async step() {
      await watcher.worker.step()
      await Promise.all([...watcher.worker.running.values()].map((scope) => scope.done))
    },
  }
  await pass(t, 40, watcher, guard, works)
  expect(await turnRow(t, leased)).toMatchObject({ outcome: 'success' })
  expect(await turnRow(t, running.agentTurnId)).toMatchObject({ outcome: 'success', turn_epoch: running.turnEpoch + 1 })
  expect(await turnRow(t, suspended.agentTurnId)).toMatchObject({ outcome: 'success' })
})

it('one of several PMOs sends the alert about a target without workers, and again when it happens again', async () => {
  await t.agents('waiting')
  const { log, lines } = recordedLog()
  const alerted: string[] = []
  const enqueue = () => t.kernel.enqueue({ projectId: project, agentId: 'waiting', instruction: 'x' })
  const pmos = ['a', 'b', 'c'].map((name) => watchTargets(t.kernel, systemClock, log, () => void alerted.push(name)))
  await enqueue()
  await pass(t, 700, guardAlone(t))
  await Promise.all(pmos.map((watch) => watch()))
  const [sender] = alerted
  expect(alerted).toEqual([sender])
  expect(lines.map(({ message }) => message)).toEqual(
    ['b', 'c'].map(() => 'turns wait for a worker; another PMO sends the alert'),
  )
  // A PMO that starts later finds the alert of the others.
  await watchTargets(t.kernel, systemClock, log, () => void alerted.push('late'))()
  const worker = workerOn(t, { workerId: 'back', agent: async () => ({ deliver: { text: 'done' } }) })
  await worker.step()
  await Promise.all(pmos.map((watch) => watch()))
  await worker.worker.step()
  await Promise.all([...worker.worker.running.values()].map((scope) => scope.done))
  await enqueue()
  await pass(t, 700, guardAlone(t))
  await Promise.all(pmos.map((watch) => watch()))
  expect(alerted).toEqual([sender, sender])
})

it('[W2.5] keeps what was leased while the only worker was frozen for 60 s', async () => {
  await t.agents('frozen')
  const guard = guardAlone(t)
  const only = { step: () => signIn(t.db, 'only', target, 8, 8) }
  await pass(t, 40, only, guard)
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'frozen', instruction: 'x' })
  await pass(t, 60, guard)
  // It signs in first, and the guard looks before the worker has claimed.
  await only.step()
  await guard.step()
  expect(await headOf(t, 'frozen')).toMatchObject({ status: 'dispatched' })
  expect(await t.claim(1, 'only')).toMatchObject([{ agentTurnId }])
})

it('[W2.6] keeps a running turn while its only worker beats but cannot watch without gaps', async () => {
  await t.agents('waiting')
  const { agentTurnId, turnEpoch } = await t.running('waiting')
  const guard = guardAlone(t, { activeReapSeconds: 60 })
  const watcher = workerOn(t, { workerId: 'slow' })
  const beats = { step: () => t.all(`update state.workers set seen_at = state.now() where worker_id = 'slow'`) }
  for (let round = 0; round < 8; round += 1) {
    await watcher.step()
    await pass(t, 20, beats, guard)
  }
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: null, turn_epoch: turnEpoch })
  await pass(t, 40, watcher, guard)
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: null, turn_epoch: turnEpoch + 1 })
})

it('[W2.5] [W2.6] [W2.2f] ends the turns of a target without workers after max_queue_seconds', async () => {
  await t.agents('forgotten', 'running', 'suspended')
  const running = await t.running('running')
  const suspended = await suspendedTurn(t, 'suspended', grepCalls('c1'))
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'forgotten', instruction: 'x' })
  const guard = guardAlone(t, { maxQueueSeconds: 100, activeReapSeconds: 50, suspendedReapSeconds: 50 })
  await pass(t, 95, guard)
  for (const turn of [agentTurnId, running.agentTurnId, suspended.agentTurnId])
    expect(await turnRow(t, turn)).toMatchObject({ outcome: null })
  await pass(t, 10, guard)
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: 'timeout', error: 'dispatch_timeout' })
  expect(await turnRow(t, running.agentTurnId)).toMatchObject({ error: 'timeout_reaped_by_watchdog' })
  expect(await turnRow(t, suspended.agentTurnId)).toMatchObject({ error: 'suspended_unresumable' })
})

it('[W2.5] the PMO sends one alert to the webhook when the turns of a target begin to wait for a worker', async () => {
  await t.agents('alerted')
  await t.kernel.enqueue({ projectId: project, agentId: 'alerted', instruction: 'x' })
  await t.advance(70)
  const received: unknown[] = []
  const hook = createServer((request, response) => {
    void json(request).then((body) => {
      received.push(body)
      response.writeHead(204).end()
    })
  })
  const port = await listen(hook)
  const url = `http://127.0.0.1:${port}/`
  const stop = new AbortController()
  const { log, lines } = recordedLog()
  const settings = loadSettings({ folder: '/', env: { BELLWETHER__NOTIFY__WEBHOOK_URL: url } })
  const runtime = { kernel: t.kernel, bell: silentBell, stream: () => silentStream } as unknown as Runtime
  const { ended } = await startPmo({ runtime, settings, log, signal: stop.signal })
  try {
    await until('the webhook gets an alert', async () => received.length > 0 || undefined)
  } finally {
    stop.abort()
    await ended
    hook.closeAllConnections()
    hook.close()
  }
  expect(received).toEqual([
    {
      kind: 'no_worker',
      text: `no worker for target "${target}": 1 turn waits`,
      details: { target, turns: 1, waitingSeconds: expect.any(Number) as number },
      at: expect.any(String) as string,
      id: expect.stringMatching(/^no_worker /) as string,
      link: 'http://127.0.0.1:7717/',
    },
  ])
  expect(lines.filter(({ message }) => message.startsWith('no worker for target'))).toHaveLength(1)
})

const silentStream: EventStream = {
  kind: 'notify',
  remembers: false,
  lastCursor: async () => undefined,
  publish: async () => 'ok',
  close: async () => undefined,
}
