/** Spending limits per calendar day and month: exact for concurrent turns, counted once, and new with each period. */
import { beforeEach, expect, it } from 'vitest'
import { openKernel } from '../../../src/kernel/kernel.js'
import { readSpending } from '../../../src/kernel/reads/quotas.js'
import { claimSpendingAlerts, setSpendingLimits } from '../../../src/kernel/verbs/budgets/spending.js'
import type { ClaimedTurn } from '../../../src/kernel/verbs/turn/claim.js'
import { prune, reclaim } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import { openDatabase } from '../../../src/ports/database/pool.js'
import type { SpendingLimit } from '../../../src/settings/spending.js'
import { kernelPerTest, moveToNoon, target } from '../../support/kernel.js'
import { deliverTurn, fullWatchWindow } from '../../support/kernel-turns.js'
import { silentBell } from '../../support/silent-bell.js'

const t = kernelPerTest()
const model = 'work/large'
const daySeconds = 86_400

const setLimits = (limits: readonly SpendingLimit[], action: 'hold' | 'stop_run' = 'hold', timeZone = 'UTC') =>
  setSpendingLimits(t.db, limits, { action, timeZone })
const usedOf = async (limit: string) => (await readSpending(t.db)).find((one) => one.limit === limit)

beforeEach(() => moveToNoon(t))

async function spender(agentId: string): Promise<ClaimedTurn> {
  await t.agents(agentId)
  const turn = await t.running(agentId)
  await t.kernel.meterSpending(turn, model)
  return turn
}

it('16 concurrent spenders never spend more than a limit of project, agent or model, and leave nothing reserved', async () => {
  await setLimits([
    { scope: 'project', period: 'day', tokens: 20_000, costMicros: 60_000 },
    { scope: 'project', period: 'month', tokens: 1_000_000 },
    { scope: 'agent', name: 's3', period: 'day', tokens: 500 },
    { scope: 'model', name: model, period: 'month', tokens: 18_000 },
  ])
  const turns: ClaimedTurn[] = []
  for (let at = 0; at < 16; at += 1) turns.push(await spender(`s${at}`))
  const db = await openDatabase({ url: t.url, poolSize: 16 })
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  let spent = 0
  const ofOne = new Map<string, number>()
  const actions = new Set<string | undefined>()
  const spend = async (turn: ClaimedTurn, seed: number) => {
    for (let round = 0; ; round += 1) {
      const tokens = 50 + ((seed * 31 + round * 17) % 400)
      const ask = { reservationId: `${turn.agentTurnId}-${round}`, tokens, costMicros: tokens * 3, model }
      // A call whose commit was in doubt is repeated.
      const answers = await Promise.all([kernel.reserve(turn, ask), kernel.reserve(turn, ask)])
      if (!answers.some(({ what }) => what === 'reserved')) {
        actions.add(answers[0].left?.spending?.action)
        break
      }
      const used = Math.floor((tokens * ((seed + round) % 5)) / 4)
      await kernel.commitUsage(turn, { reservationId: ask.reservationId, tokens: used, costMicros: used * 3 })
      spent += used
      ofOne.set(turn.agentId, (ofOne.get(turn.agentId) ?? 0) + used)
    }
    if (seed % 2 === 0) await kernel.deliver({ ...turn, status: 'success', content: { text: 'spent' } })
    else await kernel.stop({ projectId: turn.projectId, agentTurnId: turn.agentTurnId })
  }
  await Promise.all(turns.map(spend))
  await db.close()
  expect([...actions]).toEqual(['hold'])
  expect(ofOne.get('s3')).toBeLessThanOrEqual(500)
  expect(spent).toBeLessThanOrEqual(18_000)
  expect(spent).toBeGreaterThan(17_000)
  for (const limit of ['project day', 'project month', `model ${model} month`])
    expect(await usedOf(limit)).toMatchObject({ tokens: { used: spent, reserved: 0 } })
  expect(await usedOf('project day')).toMatchObject({ cost_micros: { used: spent * 3, reserved: 0, limit: 60_000 } })
})

it('charges the reservation of a killed worker once, and the usage of a step as it grows', async () => {
  await setLimits([{ scope: 'agent', name: 'a', period: 'day', tokens: 1_000 }])
  const turn = await spender('a')
  await t.kernel.reserve(turn, { reservationId: 'r1', tokens: 300 })
  await t.advance(31)
  await reclaim(t.db, target, 30, 3, fullWatchWindow)
  expect(await usedOf('agent a day')).toMatchObject({ tokens: { used: 300, reserved: 0 } })
  const [next] = await t.claim()
  await t.kernel.meterSpending(next!, model)
  const report = (tokens: number) =>
    t.kernel.record({
      ...next!,
      step: { stepId: 'step', phase: 'agent', status: 'running', metadata: { usage: { input_tokens: tokens } } },
    })
  for (const tokens of [100, 250, 250]) await report(tokens)
  expect(await usedOf('agent a day')).toMatchObject({ tokens: { used: 550, reserved: 0 } })
  expect(await t.kernel.reserve(next!, { reservationId: 'r2', tokens: 451 })).toMatchObject({
    what: 'exceeded',
    left: { spending: { limit: 'agent a day', action: 'hold', tokens: 450 } },
  })
  expect((await t.kernel.reserve(next!, { reservationId: 'r2', tokens: 450 })).what).toBe('reserved')
  await t.kernel.releaseUsage(next!, 'r2')
  await deliverTurn(t, next!)
  expect(await usedOf('agent a day')).toMatchObject({ tokens: { used: 550, reserved: 0 } })
})

it('begins a new count with each day of the time zone, and keeps the reservation of a call in its own period', async () => {
  await setLimits([{ scope: 'project', period: 'day', tokens: 100 }], 'hold', 'Pacific/Auckland')
  const turn = await spender('b')
  const zone = await usedOf('project day')
  const local = new Intl.DateTimeFormat('en', { timeZone: 'Pacific/Auckland', hour: 'numeric', hourCycle: 'h23' })
  expect(Number(local.format(new Date(zone!.ends_at!))) % 24).toBe(0)
  await t.kernel.reserve(turn, { reservationId: 'r1', tokens: 100 })
  expect((await t.kernel.reserve(turn, { reservationId: 'r2', tokens: 1 })).what).toBe('exceeded')
  await t.advance(daySeconds)
  expect((await t.kernel.reserve(turn, { reservationId: 'r2', tokens: 100 })).what).toBe('reserved')
  await t.kernel.commitUsage(turn, { reservationId: 'r1', tokens: 60 })
  const rows = await t.all(
    'select tokens_used::int as used, tokens_reserved::int as reserved from state.spending_periods order by starts_at',
  )
  expect(rows).toEqual([
    { used: 60, reserved: 0 },
    { used: 0, reserved: 100 },
  ])
  await deliverTurn(t, turn)
  await t.advance(40 * daySeconds)
  while ((await prune(t.db, 30)) > 0);
  expect(await t.all('select from state.spending_periods')).toEqual([])
})

it('begins a day at the second midnight where the clock is set back over midnight, and counts every call before it', async () => {
  // The clock goes from 01:00 back to 00:00 on the last Sunday of October.
  await setLimits([{ scope: 'project', period: 'day', tokens: 100 }], 'hold', 'Atlantic/Azores')
  const { now } = await t.one<{ now: Date }>('select state.now() as now')
  const sunday = new Date(Date.UTC(now.getUTCFullYear() + 1, 9, 31))
  sunday.setUTCDate(sunday.getUTCDate() - sunday.getUTCDay())
  const at = (hours: number) => sunday.getTime() + hours * 3_600_000
  await t.advance((at(0.5) - now.getTime()) / 1_000)
  // 00:30 for the first time: no call has opened the period of Saturday.
  const turn = await spender('b')
  expect((await t.kernel.reserve(turn, { reservationId: 'r1', tokens: 100 })).what).toBe('reserved')
  expect((await t.kernel.reserve(turn, { reservationId: 'r2', tokens: 1 })).what).toBe('exceeded')
  await t.advance(3_600)
  expect((await t.kernel.reserve(turn, { reservationId: 'r2', tokens: 100 })).what).toBe('reserved')
  const periods = await t.all<{ starts_at: Date; ends_at: Date }>(
    'select starts_at, ends_at from state.spending_periods order by starts_at',
  )
  expect(periods).toEqual([
    { starts_at: new Date(at(-24)), ends_at: new Date(at(1)) },
    { starts_at: new Date(at(1)), ends_at: new Date(at(25)) },
  ])
})

it('alerts once at 80 % and once at 100 % per period', async () => {
  await setLimits([{ scope: 'project', period: 'day', tokens: 100 }], 'stop_run')
  const turn = await spender('c')
  const spend = async (id: string, tokens: number) => {
    await t.kernel.reserve(turn, { reservationId: id, tokens })
    await t.kernel.commitUsage(turn, { reservationId: id, tokens })
  }
  await spend('r1', 79)
  expect(await claimSpendingAlerts(t.db)).toEqual([])
  await spend('r2', 1)
  const claims = await Promise.all([claimSpendingAlerts(t.db), claimSpendingAlerts(t.db)])
  expect(claims.flat()).toMatchObject([{ limit_id: 'project day', percent: 80 }])
  await spend('r3', 20)
  expect(await claimSpendingAlerts(t.db)).toMatchObject([{ percent: 100, action: 'stop_run' }])
  expect(await claimSpendingAlerts(t.db)).toEqual([])
  await deliverTurn(t, turn)
})

it('a turn to which no limit applies is not metered, and changed limits continue the turns that a limit holds', async () => {
  await setLimits([{ scope: 'agent', name: 'other', period: 'day', tokens: 1 }])
  await t.agents('d')
  const turn = await t.running('d')
  expect(await t.kernel.meterSpending(turn, model)).toBe('unmetered')
  expect((await t.kernel.reserve(turn, { reservationId: 'r', tokens: 5 })).what).toBe('unlimited')
  const limit = { account: 'spending: p, project day', until: new Date('2999-01-01'), reason: 'reached' }
  await t.kernel.park(turn, await t.kernel.holdAccount(turn, limit, 31 * daySeconds), 100)
  await setLimits([{ scope: 'agent', name: 'other', period: 'day', tokens: 1 }])
  expect(await t.one('select ended_by from state.account_holds')).toEqual({ ended_by: null })
  await setLimits([{ scope: 'agent', name: 'other', period: 'day', tokens: 2 }])
  expect(await t.one('select ended_by from state.account_holds')).toEqual({ ended_by: 'settings' })
})
