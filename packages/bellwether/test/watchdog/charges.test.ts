/** W2.1: which worker deaths are charged, rule by rule; what a shutdown leaves; which rows ring. The verbs are called directly. */
import { expect, it } from 'vitest'
import { signIn, signOut } from '../../src/kernel/verbs/roster.js'
import { reclaim, retryDispatched } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { kernelPerTest, project, target } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn, fullWatchWindow } from '../support/kernel-turns.js'
import { guardAlone, pass, workerOn } from '../support/watchdog.js'

const t = kernelPerTest()

const reclaimNow = () => reclaim(t.db, target, 30, 3, fullWatchWindow)
/** Turns of these agents, all in one worker. */
async function runIn(workerId: string, ...agents: string[]) {
  await t.agents(...agents)
  await signIn(t.db, workerId, target, 8, 8)
  for (const agent of agents) await enqueueTurn(t, agent)
  const turns = await t.claim(8, workerId)
  return agents.map((agent) => turns.find((turn) => turn.agentId === agent)!)
}
const deathsOf = async (turn: { readonly agentTurnId: string }) =>
  (await t.one<{ deaths: number }>('select deaths from state.agent_inbox where agent_turn_id = $1', turn.agentTurnId))
    .deaths

it('[W2.1] charges nothing to the last turn of a worker whose other turns were reclaimed before it', async () => {
  const [one, two] = await runIn('crowded', 'one', 'two')
  await t.advance(40)
  const reclaimOne = () =>
    t.all(`select * from state.reclaim($1, 30, 3, '-infinity'::timestamptz, 'infinity'::timestamptz, 1)`, target)
  expect(await reclaimOne()).toHaveLength(1)
  expect(await reclaimOne()).toHaveLength(1)
  expect([await deathsOf(one!), await deathsOf(two!)]).toEqual([0, 0])
})

it('[W2.1] charges a turn after ten shared deaths, even if it is not alone', async () => {
  const [one] = await runIn('crowded', 'one', 'two')
  await t.all("update state.agent_state_head set shared_deaths = 10 where agent_id = 'one'")
  await t.advance(40)
  await reclaimNow()
  expect(await deathsOf(one!)).toBe(1)
})

it('[W2.1] counts a last death once, although several watchdogs find it at the same moment', async () => {
  const names = Array.from({ length: 40 }, (_, n) => `last-${n}`)
  await t.agents(...names)
  for (const name of names) {
    await signIn(t.db, name, target, 1, 1)
    await enqueueTurn(t, name)
    await t.claim(1, name)
  }
  await t.advance(40)
  const reclaimSome = () =>
    t.all(`select * from state.reclaim($1, 30, 1, '-infinity'::timestamptz, 'infinity'::timestamptz, 3)`, target)
  for (let round = 0; round < 20; round += 1) await Promise.all(Array.from({ length: 8 }, reclaimSome))
  expect(await t.all('select deaths, count(*)::int from state.agent_inbox group by 1')).toEqual([
    { deaths: 1, count: names.length },
  ])
})

it('[W2.1] charges nothing to a turn that was alone in a worker that shut down, and charges it in the next life', async () => {
  const [turn] = await runIn('drained', 'alone')
  await signOut(t.db, 'drained')
  await t.advance(40)
  expect(await reclaimNow()).toHaveLength(1)
  expect(await deathsOf(turn!)).toBe(0)
  await signIn(t.db, 'drained', target, 8, 8)
  expect(await t.claim(8, 'drained')).toHaveLength(1)
  await t.advance(40)
  await reclaimNow()
  expect(await deathsOf(turn!)).toBe(1)
})

it('[W2.1] waits for the last sign of life of a worker, unless the worker lives on without the turn', async () => {
  await runIn('dying', 'old')
  await t.advance(8)
  await signIn(t.db, 'dying', target, 8, 7)
  await t.advance(24)
  expect(await reclaimNow()).toEqual([])
  await t.advance(10)
  expect(await reclaimNow()).toHaveLength(1)
  await t.claim(8, 'forgetful')
  await t.advance(31)
  await signIn(t.db, 'forgetful', target, 8, 7)
  expect(await reclaimNow()).toHaveLength(1)
})

it('[W2.1] the next turn of an agent starts without shared deaths', async () => {
  const [turn] = await runIn('w1', 'odd')
  await t.all("update state.agent_state_head set shared_deaths = 2 where agent_id = 'odd'")
  await deliverTurn(t, turn!)
  await enqueueTurn(t, 'odd')
  expect(await headOf(t, 'odd')).toMatchObject({ status: 'dispatched', shared_deaths: 0 })
})

it('[T1.2] a worker that shuts down hands back nothing with a stale fence, and its reservations are charged', async () => {
  await t.agents('paid')
  await signIn(t.db, 'leaving', target, 8, 8)
  await enqueueTurn(t, 'paid', { budget: { tokens: 1_000 } })
  const [turn] = await t.claim(8, 'leaving')
  await t.kernel.reserve(turn!, { reservationId: 'r1', tokens: 100 })
  await t.kernel.handBack([{ ...turn!, turnEpoch: turn!.turnEpoch - 1 }], 'leaving')
  expect(await turnRow(t, turn!.agentTurnId)).toMatchObject({ status: 'processing', turn_epoch: turn!.turnEpoch })
  await t.kernel.handBack([turn!], 'leaving')
  expect(await turnRow(t, turn!.agentTurnId)).toMatchObject({ status: 'pending', turn_epoch: turn!.turnEpoch + 1 })
  expect(await t.one("select status from state.reservations where reservation_id = 'r1'")).toEqual({
    status: 'charged',
  })
})

it('[W2.1] a worker that is held back reports no room until one of its turns ends', async () => {
  await t.agents('odd', 'next')
  for (const agent of ['odd', 'next']) await enqueueTurn(t, agent)
  await t.all("update state.agent_state_head set shared_deaths = 2 where agent_id = 'odd'")
  let finish = () => undefined as void
  const { worker } = workerOn(t, {
    concurrency: 4,
    agent: ({ turn }) =>
      turn.agentId === 'next'
        ? Promise.resolve({ deliver: { text: 'done' } })
        : new Promise((resolve) => {
            finish = () => resolve({ deliver: { text: 'done' } })
          }),
  })
  expect(await worker.step()).toMatchObject({ started: 1 })
  expect(worker.free()).toBe(0)
  const [scope] = worker.running.values()
  finish()
  await scope!.done
  expect(worker.free()).toBe(4)
  expect(await worker.step()).toMatchObject({ started: 1 })
  await Promise.all([...worker.running.values()].map((one) => one.done))
})

it('[W2.5] keeps a leased turn whose only worker claimed before and is gone', async () => {
  const [turn] = await runIn('gone', 'first')
  await deliverTurn(t, turn!)
  const { agentTurnId } = await enqueueTurn(t, 'first')
  await pass(t, 80, guardAlone(t))
  expect(await turnRow(t, agentTurnId)).toMatchObject({ outcome: null })
})

it('[W2.1] [T3.2b] does not ring for a row that the reclaim refuses, nor for one that has ended', async () => {
  const [turn] = await runIn('w1', 'real')
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, turn_epoch, processed_at)
     values ('forged', $1, 'real', 'w', 'public', 'turn', 'processing', 'a-turn-of-no-agent', 7, state.now())`,
    project,
  )
  await t.advance(40)
  const verdicts = await reclaimNow()
  expect(verdicts.find((one) => one.inbox_id === 'forged')).toMatchObject({ what: 'refused', worker_target: null })
  expect(verdicts.find((one) => one.agent_turn_id === turn!.agentTurnId)).toMatchObject({ worker_target: target })

  await t.agents('leased')
  const { agentTurnId } = await enqueueTurn(t, 'leased')
  await t.all(
    "update state.agent_inbox set status = 'consumed', outcome = 'failed', ended_at = state.now() where agent_turn_id = $1",
    agentTurnId,
  )
  await t.advance(20)
  expect(await retryDispatched(t.db, 10)).toEqual([])
})
