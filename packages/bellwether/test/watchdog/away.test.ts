/** W2.10: a watchdog that was away ends nothing until one full timeout has passed inside its watch window. */
import { describe, expect, it } from 'vitest'
import type { Database, Statement } from '../../src/ports/database/database.js'
import { kernelPerTest, project, target } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, suspendedTurn } from '../support/kernel-turns.js'
import { guardOn, pass, workerOn } from '../support/watchdog.js'

const t = kernelPerTest()

/** One turn for each way of ending, and the seconds each may be silent. */
async function everyKind(): Promise<Record<string, number>> {
  await t.agents('running', 'suspended', 'dispatched')
  await t.kernel.putAgents([
    { projectId: project, agentId: 'deadline', workerTarget: target, turnDeadlineSeconds: 100 },
  ])
  await t.running('running')
  await suspendedTurn(t, 'suspended', grepCalls('c1'))
  await t.running('deadline')
  await t.kernel.enqueue({ projectId: project, agentId: 'dispatched', instruction: 'x' })
  return { dispatched: 30, deadline: 100, running: 300, suspended: 330 }
}
const living = async () =>
  (
    await t.all<{ agent_id: string }>(
      `select agent_id from state.agent_state_head where status <> 'idle' order by agent_id`,
    )
  ).map((row) => row.agent_id)
const jumpDatabase = (seconds: number) =>
  t.all('update state.test_clock set offset_seconds = offset_seconds + $1', seconds)

/** After an absence, each turn has a full timeout again, and not much more. */
async function endsOnlyUnderOurEyes(
  guard: { step(): Promise<unknown> },
  limits: Record<string, number>,
): Promise<string> {
  await guard.step()
  expect(await living()).toEqual(Object.keys(limits).toSorted())
  let passed = 0
  for (const seconds of new Set(Object.values(limits).toSorted((a, b) => a - b))) {
    const due = (agentId: string) => (limits[agentId] ?? 0) >= seconds
    await pass(t, seconds - 5 - passed, guard)
    expect(await living()).toEqual(Object.keys(limits).filter(due).toSorted())
    await pass(t, 15, guard)
    passed = seconds + 10
  }
  expect(await living()).toEqual([])
  return 'all ended in time'
}

describe('the PMO', () => {
  it('[W2.10] ends nothing early after a pause of one hour, which its monotonic clock shows', async () => {
    const limits = await everyKind()
    const guard = guardOn(t)
    await pass(t, 20, guard)
    await t.advance(3_000)
    await expect(endsOnlyUnderOurEyes(guard, { ...limits, suspended: 300 })).resolves.toBe('all ended in time')
  })

  it('[W2.10] ends nothing early if it starts after a long silence', async () => {
    const limits = await everyKind()
    await t.advance(3_000)
    await expect(endsOnlyUnderOurEyes(guardOn(t), { ...limits, suspended: 300 })).resolves.toBe('all ended in time')
  })

  it('[W2.10] ends nothing early if the database’s clock jumps forward', async () => {
    const limits = await everyKind()
    const guard = guardOn(t)
    await pass(t, 20, guard)
    await jumpDatabase(3_000)
    await expect(endsOnlyUnderOurEyes(guard, { ...limits, suspended: 300 })).resolves.toBe('all ended in time')
  })

  it('[W2.10] after the clock is set back, signs of life in the future hide silence for at most one timeout', async () => {
    const limits = await everyKind()
    // A claim with a time in the future does not make a dead fleet count as busy.
    await t.all(`select state.sign_in('worker-1', $1, 1)`, target)
    await t.all('update state.workers set last_claim_at = state.now()')
    const guard = guardOn(t)
    await pass(t, 20, guard)
    await t.advance(-7_200)
    await expect(endsOnlyUnderOurEyes(guard, limits)).resolves.toBe('all ended in time')
    expect(await t.all(`select kind from state.interventions where kind = 'clock_set_back'`)).toHaveLength(1)
  })

  it('[W2.10] handles a clock that was set back while no PMO ran', async () => {
    const limits = await everyKind()
    await t.advance(-7_200)
    await expect(endsOnlyUnderOurEyes(guardOn(t), limits)).resolves.toBe('all ended in time')
  })

  it('[W2.10] repeats the check for a clock that was set back if it failed', async () => {
    await t.agents('ann')
    await t.running('ann')
    const guard = guardOn(t)
    await guard.step()
    await t.advance(-7_200)
    await t.all(`alter function state.reset_future_times() rename to hidden`)
    await expect(guard.step()).rejects.toThrow('1 watchdog rules failed')
    await t.all(`alter function state.hidden() rename to reset_future_times`)
    await pass(t, 320, guard)
    expect(await living()).toEqual([])
  })

  it('[W2.10] ends nothing early after the database was unavailable for longer than three intervals', async () => {
    const limits = await everyKind()
    let gone = false
    const db = wrapped(async () => gone && Promise.reject(new Error('gone')))
    const guard = guardOn(t, {}, target, { ...t.kernel, db })
    await pass(t, 20, guard)
    gone = true
    for (let tries = 0; tries < 80; tries += 1) {
      await t.advance(5)
      await expect(guard.step()).rejects.toThrow('gone')
    }
    gone = false
    await expect(endsOnlyUnderOurEyes(guard, { ...limits, suspended: 300 })).resolves.toBe('all ended in time')
  })

  it('[W2.10] a call that was delayed by a pause arrives too late and has no effect', async () => {
    await t.agents('ann')
    const turn = await t.running('ann')
    let pauseSeconds = 0
    const db = wrapped(async (statement) => {
      if (statement.name === 'bw_reap') await t.advance(pauseSeconds)
    })
    const guard = guardOn(t, {}, target, { ...t.kernel, db })
    await pass(t, 295, guard)
    pauseSeconds = 20
    await guard.step()
    expect(await living()).toEqual(['ann'])
    // After the pause the worker, which could not beat either, has its full timeout again.
    pauseSeconds = 0
    await guard.step()
    await pass(t, 290, guard)
    expect(await living()).toEqual(['ann'])
    await pass(t, 15, guard)
    expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ error: 'timeout_reaped_by_watchdog' })
  })

  it('[W2.10] one or two late steps do not count as an absence', async () => {
    await t.agents('ann')
    await t.running('ann')
    const guard = guardOn(t)
    await guard.step()
    for (let passed = 0; passed < 310; passed += 12) {
      await t.advance(12)
      await guard.step()
    }
    expect(await living()).toEqual([])
  })
})

describe('the worker’s watchdog', () => {
  it('[W2.10] [W2.1] [W2.2a] after an absence reclaims no row and expires no wait until one full timeout has passed', async () => {
    await t.agents('silent', 'waiting')
    const turn = await t.running('silent')
    await suspendedTurn(t, 'waiting', grepCalls('c1'))
    const watcher = workerOn(t)
    await pass(t, 10, watcher)
    for (const absence of [() => t.advance(600), () => jumpDatabase(600)]) {
      await absence()
      await pass(t, 25, watcher)
      expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ status: 'processing', turn_epoch: turn.turnEpoch })
      expect((await headOf(t, 'waiting')).resume_deadline).not.toBeNull()
    }
    await pass(t, 10, watcher)
    expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ status: 'pending' })
    expect((await headOf(t, 'waiting')).resume_deadline).toBeNull()
  })

  it('[W2.10] [W2.1] [W2.2a] calls that were delayed by a pause have no effect', async () => {
    await t.agents('silent', 'waiting')
    const turn = await t.running('silent')
    await suspendedTurn(t, 'waiting', grepCalls('c1'))
    let paused = false
    const db = wrapped(async (statement) => {
      if (paused && (statement.name === 'bw_reclaim' || statement.name === 'bw_expire_waits')) await t.advance(20)
    })
    const watcher = workerOn({ ...t, kernel: { ...t.kernel, db } })
    await pass(t, 28, watcher)
    paused = true
    await t.advance(4)
    await watcher.step()
    expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ status: 'processing' })
    expect((await headOf(t, 'waiting')).resume_deadline).not.toBeNull()
  })
})

/** The test's database, with a hook before each statement. */
function wrapped(before: (statement: Statement) => Promise<unknown>): Database {
  return {
    ...t.db,
    query: async <Row extends object>(statement: Statement) => {
      await before(statement)
      return t.db.query<Row>(statement)
    },
  }
}
