/** Holds of accounts: parked turns need no worker, one call probes an account per window, and turns continue by themselves. */
import { expect, it } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import { releaseParked } from '../../src/kernel/verbs/accounts/accounts.js'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { expireWaits, reclaim } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { deliverTurn, fullWatchWindow } from '../support/kernel-turns.js'
import { guardOn } from '../support/watchdog.js'
import { silentBell } from '../support/silent-bell.js'

const t = kernelPerFile()
const hourSeconds = 3_600
const daySeconds = 86_400
const reason = 'usage limit reached'

const now = async () => (await t.one<{ now: Date }>('select state.now() as now')).now
const later = async (seconds: number) => new Date((await now()).getTime() + seconds * 1_000)
const holdOf = (account: string) =>
  t.one<{ window_no: number; probe_turn_id: string | null; until: Date; ended_by: string | null }>(
    'select * from state.account_holds where account = $1',
    account,
  )
const parked = (account: string) => t.all('select from state.parked_turns where account = $1', account)

async function running(...names: string[]): Promise<ClaimedTurn[]> {
  await t.agents(...names)
  const turns = []
  for (const name of names) turns.push(await t.running(name))
  return turns
}

/** The turn reaches the limit, and it and the others are parked. */
async function parkAll(account: string, turns: readonly ClaimedTurn[], seconds: number): Promise<void> {
  const hold = await t.kernel.holdAccount(turns[0]!, { account, until: await later(seconds), reason }, 6 * hourSeconds)
  for (const turn of turns) expect(await t.kernel.park(turn, hold, 6 * hourSeconds)).toBe('suspended')
}

/** Claims the released turns and resumes them, as their worker does. */
async function resumed(): Promise<ClaimedTurn[]> {
  const claimed = await t.claim()
  for (const turn of claimed) expect(await t.kernel.resume(turn, 'worker-1')).toBe('resumed')
  return [...claimed]
}

it('parks the turns of an account without a worker, and continues one as the probe and the others after its success', async () => {
  const turns = await running('a1', 'a2', 'a3')
  await parkAll('a', turns, 600)
  expect((await headOf(t, 'a1')).status).toBe('suspended')
  expect(await releaseParked(t.db, t.ids)).toEqual([])
  await t.advance(601)
  expect(await releaseParked(t.db, t.ids)).toHaveLength(1)
  expect(await releaseParked(t.db, t.ids)).toEqual([])
  const [probe, ...others] = await resumed()
  expect(others).toEqual([])
  expect(probe!.agentId).toBe('a1')
  expect(await t.kernel.enterAccount(probe!, 'a')).toEqual({ what: 'probe' })
  expect(await t.kernel.endHold('a', 'probe', turns[1])).toBe(false)
  expect(await t.kernel.endHold('a', 'probe', probe)).toBe(true)
  expect((await resumed()).map((turn) => turn.agentId).toSorted()).toEqual(['a2', 'a3'])
  for (const turn of turns) expect(await t.kernel.enterAccount(turn, 'a')).toEqual({ what: 'free' })
  expect(await parked('a')).toEqual([])
  expect(await turnRow(t, turns[0]!.agentTurnId)).toMatchObject({ deaths: 0, turn_epoch: turns[0]!.turnEpoch })
  for (const turn of turns) await deliverTurn(t, turn)
})

it('lets exactly one of 16 concurrent workers probe, and no one before the window is over', async () => {
  const turns = await running(...Array.from({ length: 16 }, (_, at) => `b${at}`))
  await t.kernel.holdAccount(turns[0]!, { account: 'b', until: await later(60), reason }, hourSeconds)
  const db = await openDatabase({ url: t.url, poolSize: 16 })
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  const enterAll = async () =>
    (await Promise.all(turns.map((turn) => kernel.enterAccount(turn, 'b')))).map((one) => one.what)
  expect(new Set(await enterAll())).toEqual(new Set(['held']))
  await t.advance(61)
  for (let round = 0; round < 3; round += 1) {
    const what = await enterAll()
    expect(what.filter((one) => one === 'probe')).toHaveLength(1)
    expect(what.filter((one) => one === 'held')).toHaveLength(15)
    const prober = turns[what.indexOf('probe')]!
    // The probe finds the limit again: the next window.
    await kernel.holdAccount(prober, { account: 'b', until: await later(60), reason }, hourSeconds)
    expect(await holdOf('b')).toMatchObject({ window_no: round + 2, probe_turn_id: null })
    await t.advance(61)
  }
  await db.close()
  for (const turn of turns) await deliverTurn(t, turn)
})

it('makes no second call in a window after the worker of its probe was killed, and none by the same worker', async () => {
  const [dead, other] = (await running('c1', 'c2')) as [ClaimedTurn, ClaimedTurn]
  await t.kernel.holdAccount(dead, { account: 'c', until: await later(60), reason }, hourSeconds)
  await t.advance(61)
  expect(await t.kernel.enterAccount(dead, 'c')).toEqual({ what: 'probe' })
  // Its worker dies after the call was sent; another takes the turn over.
  await t.kernel.beat([other], 'worker-1')
  await t.advance(29)
  await t.kernel.beat([other], 'worker-1')
  await t.advance(2)
  await reclaim(t.db, target, 30, 3, fullWatchWindow)
  const [successor] = await t.claim()
  expect(successor).toMatchObject({ agentId: 'c1', takenOver: true })
  expect(await t.kernel.enterAccount(dead, 'c')).toEqual({ what: 'stale' })
  expect((await t.kernel.enterAccount(successor!, 'c')).what).toBe('held')
  expect(await holdOf('c')).toMatchObject({ window_no: 2, probe_turn_id: null })
  expect((await t.kernel.enterAccount(other, 'c')).what).toBe('held')
  await t.advance(61)
  expect(await t.kernel.enterAccount(other, 'c')).toEqual({ what: 'probe' })
  // A retry of the same call is a second call.
  expect((await t.kernel.enterAccount(other, 'c')).what).toBe('held')
  expect(await holdOf('c')).toMatchObject({ window_no: 3 })
  for (const turn of [successor!, other]) await deliverTurn(t, turn)
})

it('chooses another probe if the chosen turn is stopped before its call, and cleans up after stopped turns', async () => {
  const [first, second] = (await running('d1', 'd2')) as [ClaimedTurn, ClaimedTurn]
  await parkAll('d', [first, second], 60)
  await t.advance(61)
  await releaseParked(t.db, t.ids)
  expect(await holdOf('d')).toMatchObject({ probe_turn_id: first.agentTurnId })
  await t.kernel.stop({ projectId: project, agentTurnId: first.agentTurnId })
  await releaseParked(t.db, t.ids)
  expect(await holdOf('d')).toMatchObject({ probe_turn_id: second.agentTurnId })
  const [probe] = await resumed()
  expect(await t.kernel.enterAccount(probe!, 'd')).toEqual({ what: 'probe' })
  await t.kernel.stop({ projectId: project, agentTurnId: second.agentTurnId })
  await releaseParked(t.db, t.ids)
  expect(await holdOf('d')).toMatchObject({ window_no: 2, probe_turn_id: null })
  expect(await parked('d')).toEqual([])
})

it('continues all turns when a person lifts the hold, also one that was parked while it ended', async () => {
  const [one, late] = (await running('e1', 'e2')) as [ClaimedTurn, ClaimedTurn]
  await parkAll('e', [one], hourSeconds)
  const entered = await t.kernel.enterAccount(late, 'e')
  expect(await t.kernel.endHold('e', 'ann')).toBe(true)
  expect(await t.kernel.endHold('e', 'ann')).toBe(false)
  if (entered.what !== 'held') throw new Error('the account is not held')
  await t.kernel.park(late, entered.hold, hourSeconds)
  await guardOn(t).step()
  expect((await resumed()).map((turn) => turn.agentId).toSorted()).toEqual(['e1', 'e2'])
  for (const turn of [one, late]) await deliverTurn(t, turn)
})

it('bounds a hold by its longest duration, and a hold without a reset by a growing pause', async () => {
  const [turn] = (await running('f')) as [ClaimedTurn]
  const seconds = async (limit: { until?: Date }) => {
    const { until } = await t.kernel.holdAccount(turn, { account: 'f', reason, ...limit }, hourSeconds)
    return Math.round((until.getTime() - (await now()).getTime()) / 1_000)
  }
  expect(await seconds({ until: await later(7 * 24 * hourSeconds) })).toBe(hourSeconds)
  await t.kernel.endHold('f', 'ann')
  for (const pause of [30, 60, 120]) {
    expect(await seconds({})).toBe(pause)
    await t.advance(pause + 1)
    expect(await t.kernel.enterAccount(turn, 'f')).toEqual({ what: 'probe' })
  }
  await deliverTurn(t, turn)
})

/** The errors with which the guard would end turns now. */
async function overdue(): Promise<unknown> {
  const seconds = { dispatched_timeout_seconds: 1e9, max_queue_seconds: 1e9, suspended_reap_seconds: 1e9 }
  const settings = { ...seconds, active_reap_seconds: 60, inbox_processing_timeout_seconds: 1e9, max_deaths: 9 }
  return t.all(
    `select o.agent_id, o.error from state.silent_heads(state.now(), $1::json) h
      cross join lateral state.overdue(state.now(), $1::json, h.tids, 10) o`,
    JSON.stringify({ ...settings, watching_since: '2000-01-01' }),
  )
}

it('[W2.9] the deadline and the working time of a parked turn stand still, and the whole deadline is left afterwards', async () => {
  const agent = { projectId: project, agentId: 'g1', workerTarget: target, turnDeadlineSeconds: 500 }
  await t.kernel.putAgents([agent])
  const turn = await t.running('g1')
  const deadline = async () => {
    const head = await headOf(t, 'g1')
    return Math.round((head.turn_deadline!.getTime() - (await now()).getTime()) / 1_000)
  }
  await t.advance(100)
  await parkAll('g', [turn], 5 * hourSeconds)
  await t.advance(5 * hourSeconds)
  expect(await overdue()).toEqual([])
  const { ms } = await t.one<{ ms: number }>('select state.working_ms($1)::int as ms', turn.agentTurnId)
  expect(ms).toBeLessThan(160_000)
  // A worker ends the wait at its own deadline, while no PMO releases turns. The account is still held: the turn is parked again.
  await t.advance(hourSeconds)
  expect(await expireWaits(t.db, t.ids, target, fullWatchWindow)).toHaveLength(1)
  const [again] = await resumed()
  await t.kernel.park(again!, { account: 'g', until: await later(hourSeconds), reason }, 6 * hourSeconds)
  await t.advance(hourSeconds)
  expect(await overdue()).toEqual([])
  await releaseParked(t.db, t.ids)
  expect(await deadline()).toBeGreaterThan(380)
  expect(await deadline()).toBeLessThanOrEqual(400)
  await resumed()
  await t.advance(401)
  expect(await overdue()).toEqual([{ agent_id: 'g1', error: 'turn_deadline' }])
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
})

it('[W5.1] a turn that is still parked after 33 days is overdue', async () => {
  const [turn] = await running('h1')
  const hold = { account: 'h', until: await later(40 * daySeconds), reason }
  await t.kernel.park(turn!, await t.kernel.holdAccount(turn!, hold, 40 * daySeconds), 40 * daySeconds)
  await t.advance(32 * daySeconds)
  expect(await overdue()).toEqual([])
  await t.advance(2 * daySeconds)
  expect(await overdue()).toEqual([{ agent_id: 'h1', error: 'turn_deadline' }])
})
