/** W2.5, W2.6, W2.2f: a target without live workers keeps its turns, and a worker that is back has time to take them. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { signIn } from '../../src/kernel/verbs/roster.js'
import { targetsWithoutWorkers } from '../../src/kernel/reads/gauges.js'
import { watchTargets } from '../../src/pmo/loop.js'
import { project, target, testKernel, type TestKernel } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, suspendedTurn } from '../support/kernel-turns.js'
import { guardAlone, pass, workerOn } from '../support/watchdog.js'

let t: TestKernel
beforeEach(async () => {
  t = await testKernel()
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
  const lines: string[] = []
  const log = (text: string) => (fields: object) =>
    void lines.push(`${text} ${'target' in fields ? String(fields.target) : ''}`)
  const watch = watchTargets(t.db, { info: log('info'), warn: log('warn'), error: log('error') })
  await watch()
  await watch()
  expect(lines).toEqual([`error ${target}`])

  const watcher = workerOn(t, { workerId: 'back', agent: async () => ({ deliver: { text: 'done' } }) })
  // The worker is seen before it claims: nothing is ended in between.
  await watcher.step()
  await guard.step()
  expect(await targetsWithoutWorkers(t.db)).toEqual([])
  await watch()
  expect(lines.at(-1)).toBe(`info ${target}`)
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

it('[W2.5] ends the turns of a target without workers after max_queue_seconds', async () => {
  await t.agents('forgotten')
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'forgotten', instruction: 'x' })
  const guard = guardAlone(t, { maxQueueSeconds: 100 })
  await pass(t, 95, guard)
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: null })
  await pass(t, 10, guard)
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: 'timeout', error: 'dispatch_timeout' })
})
