/** Budgets (hazard 18): reserve, commit, release; escrow for children; every ending settles them in its own transaction. */
import { expect, it } from 'vitest'
import type { ClaimedTurn } from '../../../src/kernel/verbs/turn/claim.js'
import { openKernel, type Kernel } from '../../../src/kernel/kernel.js'
import { reclaim } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import { openDatabase } from '../../../src/ports/database/pool.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { batchOf, budgetOf, deliverAll, forkFrom, join, reuse, wrongSums } from '../../support/forks.js'
import { turnRow } from '../../support/kernel-rows.js'
import { guardOn, intervalSeconds, pass, tasksOf } from '../../support/watchdog.js'
import { silentBell } from '../../support/silent-bell.js'
import type { NewTurn } from '../../../src/kernel/verbs/turn/enqueue.js'

const t = kernelPerFile()

const purseOf = async (budgetId: string) => (await t.kernel.readBudget(budgetId))!

/** A running turn with a budget. */
async function spender(agentId: string, budget: NonNullable<NewTurn['budget']>) {
  await t.agents(agentId)
  return t.running(agentId, { budget })
}

const ask = (turn: ClaimedTurn, reservationId: string, tokens: number) =>
  t.kernel.reserve(turn, { reservationId, tokens })

it('[T1.2] a call reserves, commits its usage and releases the rest; repeating it changes nothing', async () => {
  const turn = await spender('a', { tokens: 1_000, costMicros: 50 })
  expect(await t.kernel.reserve(turn, { reservationId: 'a1', tokens: 600, costMicros: 40 })).toMatchObject({
    what: 'reserved',
    left: { tokens: 400, costMicros: 10, wallMs: null },
  })
  expect((await ask(turn, 'a1', 600)).what).toBe('already')
  expect(await ask(turn, 'a2', 401)).toMatchObject({ what: 'exceeded', left: { tokens: 400 } })
  expect((await t.kernel.reserve(turn, { reservationId: 'a2', tokens: 1, costMicros: 11 })).what).toBe('exceeded')
  const used = { reservationId: 'a1', tokens: 250, costMicros: 20 }
  expect(await t.kernel.commitUsage(turn, used)).toMatchObject({
    what: 'committed',
    left: { tokens: 750 },
    exceeded: false,
  })
  expect(await t.kernel.commitUsage(turn, used)).toMatchObject({ what: 'already', left: { tokens: 750 } })
  expect((await t.kernel.releaseUsage(turn, 'a1')).what).toBe('already')
  await ask(turn, 'a3', 700)
  expect(await t.kernel.releaseUsage(turn, 'a3')).toMatchObject({
    what: 'released',
    left: { tokens: 750, costMicros: 30 },
  })
  expect((await t.kernel.releaseUsage(turn, 'a3')).what).toBe('already')
  expect((await t.kernel.commitUsage(turn, { reservationId: 'a3', tokens: 5 })).what).toBe('already')
  expect((await t.kernel.commitUsage(turn, { reservationId: 'none', tokens: 5 })).what).toBe('stale')
  await deliverAll(t, [turn])
  expect(await budgetOf(t, turn.agentTurnId)).toMatchObject({
    tokens_used: 250,
    tokens_reserved: 0,
    closed_at: expect.any(Date),
  })
  for (const late of [ask(turn, 'a4', 1), t.kernel.commitUsage(turn, { reservationId: 'a1', tokens: 9 })])
    expect((await late).what).toBe('stale')
  expect(await wrongSums(t)).toEqual([])
})

it('a turn without a budget is unlimited, and nothing is written for it', async () => {
  await t.agents('b')
  const turn = await t.running('b')
  expect(await ask(turn, 'b1', 1_000_000)).toEqual({ what: 'unlimited', left: null })
  expect(await t.all("select from state.reservations where reservation_id = 'b1'")).toEqual([])
  expect(await t.one('select holds from state.agent_state_head where agent_id = $1', 'b')).toEqual({ holds: false })
})

it('a reservation of another turn or an older epoch is stale', async () => {
  const [one, other] = [await spender('c1', { tokens: 100 }), await spender('c2', { tokens: 100 })]
  await ask(one, 'c', 60)
  expect((await ask(other, 'c', 60)).what).toBe('stale')
  expect((await t.kernel.commitUsage(other, { reservationId: 'c', tokens: 1 })).what).toBe('stale')
  expect((await ask({ ...one, turnEpoch: one.turnEpoch - 1 }, 'c-old', 1)).what).toBe('stale')
  expect(await budgetOf(t, one.agentTurnId)).toMatchObject({ tokens_used: 0, tokens_reserved: 60 })
})

const endings: Readonly<Record<string, (turn: ClaimedTurn) => Promise<unknown>>> = {
  deliver: (turn) => deliverAll(t, [turn], 'failed'),
  stop: (turn) => t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId }),
  async reap(turn) {
    await t.all('update state.agent_state_head set turn_deadline = leased_at where agent_id = $1', turn.agentId)
    await pass(t, 20, guardOn(t, { activeReapSeconds: 10 }))
  },
}

it.each(Object.keys(endings))(
  '%s charges what is open, closes the budget and gives the rest back to its purse',
  async (name) => {
    const purseId = `purse-${name}`
    await t.kernel.openPurse({ projectId: project, budgetId: purseId, tokens: 1_000 })
    const turn = await spender(`d-${name}`, { tokens: 300, purseId })
    expect(await purseOf(purseId)).toMatchObject({ tokens_used: 0, tokens_escrowed: 300, open_children: 1 })
    await ask(turn, `d-${name}-1`, 100)
    await t.kernel.commitUsage(turn, { reservationId: `d-${name}-1`, tokens: 40 })
    await ask(turn, `d-${name}-2`, 70)
    await endings[name]!(turn)
    expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ outcome: expect.any(String) })
    expect(await purseOf(purseId)).toMatchObject({
      tokens_used: 110,
      tokens_escrowed: 0,
      open_children: 0,
      closed_at: null,
    })
    const { status } = await t.one<{ status: string }>(
      'select status from state.reservations where reservation_id = $1',
      `d-${name}-2`,
    )
    expect(status).toBe('charged')
    expect(await wrongSums(t)).toEqual([])
  },
)

it('a cancelled turn returns its complete budget', async () => {
  await t.kernel.openPurse({ projectId: project, budgetId: 'purse-queued', tokens: 1_000 })
  await t.agents('e')
  await t.running('e')
  const budget = { purseId: 'purse-queued' }
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'e', instruction: 'later', budget })
  expect(await purseOf('purse-queued')).toMatchObject({ tokens_escrowed: 1_000 })
  await t.kernel.stop({ projectId: project, agentTurnId })
  expect(await purseOf('purse-queued')).toMatchObject({ tokens_escrowed: 0, tokens_used: 0, open_children: 0 })
})

it('[T8.1] a takeover charges the reservations of the dead worker, and its late commit changes nothing', async () => {
  const turn = await spender('f', { tokens: 1_000 })
  await ask(turn, 'f1', 400)
  await t.advance(60)
  await reclaim(t.db, target, 30, 3, { since: new Date(0), validUntil: new Date('9999-01-01'), clockSetBack: false })
  expect(await budgetOf(t, turn.agentTurnId)).toMatchObject({ tokens_used: 400, tokens_reserved: 0 })
  expect((await t.kernel.commitUsage(turn, { reservationId: 'f1', tokens: 10 })).what).toBe('stale')
  const again = (await t.claim()).find((one) => one.agentTurnId === turn.agentTurnId)!
  expect((await t.kernel.commitUsage(again, { reservationId: 'f1', tokens: 10 })).what).toBe('stale')
  expect(await ask(again, 'f2', 600)).toMatchObject({ what: 'reserved', left: { tokens: 0 } })
  expect(await wrongSums(t)).toEqual([])
})

it('an enqueue with an unknown purse is rejected and writes nothing', async () => {
  await t.agents('g')
  const turn = { projectId: project, agentId: 'g', instruction: 'x', budget: { purseId: 'nowhere' } }
  await expect(t.kernel.enqueue(turn)).rejects.toMatchObject({ code: 'unknown_card' })
  expect(await t.all("select from state.agent_inbox where agent_id = 'g'")).toEqual([])
  await expect(t.kernel.enqueue({ ...turn, budget: { tokens: -1 } })).rejects.toMatchObject({ code: 'invalid_amount' })
})

it('a fork escrows slices: fixed amounts first, equal shares of the rest, all returned when the children end', async () => {
  await t.agents('h1', 'h2', 'h3')
  const parent = await spender('h', { tokens: 1_000 })
  await ask(parent, 'h-own', 100)
  await t.kernel.commitUsage(parent, { reservationId: 'h-own', tokens: 100 })
  const batchId = await forkFrom(t, parent, 'h-call', [
    reuse('h1', { budget: { tokens: 300 } }),
    reuse('h2'),
    reuse('h3'),
  ])
  const [first, second, third] = (await t.claim()).toSorted((one, other) => (one.agentId < other.agentId ? -1 : 1))
  expect(
    (await Promise.all([first!, second!, third!].map((one) => budgetOf(t, one.agentTurnId)))).map(
      (one) => one.token_limit,
    ),
  ).toEqual([300, 300, 300])
  expect(await budgetOf(t, parent.agentTurnId)).toMatchObject({ tokens_used: 100, tokens_escrowed: 900 })
  // A fixed amount is a limit. An equal share is not: it may use what another child returned to the parent.
  expect((await ask(first!, 'h1', 301)).what).toBe('exceeded')
  expect((await ask(second!, 'h2', 301)).what).toBe('exceeded')
  await ask(third!, 'h3', 50)
  await t.kernel.commitUsage(third!, { reservationId: 'h3', tokens: 50 })
  await deliverAll(t, [third!])
  expect(await budgetOf(t, parent.agentTurnId)).toMatchObject({ tokens_used: 150, tokens_escrowed: 600 })
  expect((await ask(second!, 'h2', 550)).what).toBe('reserved')
  expect(await budgetOf(t, parent.agentTurnId)).toMatchObject({ tokens_used: 150, tokens_escrowed: 850 })
  expect((await ask(first!, 'h1', 301)).what).toBe('exceeded')
  expect(await wrongSums(t)).toEqual([])
  await t.kernel.stop({ projectId: project, agentTurnId: parent.agentTurnId })
  // The parent has ended; its budget closes when its last child has ended.
  expect(await budgetOf(t, parent.agentTurnId)).toMatchObject({ closed_at: null })
  await join(t, 3)
  expect((await batchOf(t, batchId)).settled_at).not.toBeNull()
  expect(await budgetOf(t, parent.agentTurnId)).toMatchObject({
    tokens_used: 700,
    tokens_escrowed: 0,
    closed_at: expect.any(Date),
  })
  expect(await wrongSums(t)).toEqual([])
})

it('a task that never starts returns its slice', async () => {
  await t.agents('i1')
  const parent = await spender('i', { tokens: 100 })
  await forkFrom(t, parent, 'i-call', { tasks: [reuse('i1'), reuse('i'), reuse('i-ghost')], failFast: true })
  await join(t, 3)
  expect(await budgetOf(t, parent.agentTurnId)).toMatchObject({ tokens_used: 0, tokens_escrowed: 0 })
  expect(await wrongSums(t)).toEqual([])
})

it('[H7.5] an answer that crosses the budget ends the turn as failed, budget_exceeded, with its results so far', async () => {
  const turn = await spender('j', { tokens: 100 })
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'half of the answer' } }] })
  await ask(turn, 'j1', 100)
  expect(await t.kernel.commitUsage(turn, { reservationId: 'j1', tokens: 130 })).toMatchObject({ exceeded: true })
  expect((await ask(turn, 'j2', 0)).what).toBe('exceeded')
  // Its worker ignores the limit and keeps beating.
  const guard = guardOn(t)
  const beating = { step: async () => void (await t.kernel.beat([turn], null)) }
  await pass(t, 20, guard, beating)
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  const [task] = await tasksOf(t, turn.agentTurnId)
  expect(task).toMatchObject({ status: 'failed', error: 'budget_exceeded' })
  const card = await t.kernel.readCard(task!['deliverable_card_id'] as string)
  expect(card).toMatchObject({
    type: 'task.deliverable',
    content: { error: 'budget_exceeded', text: expect.stringContaining('half of the answer') },
  })
  expect((await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'late' } })).what).toBe('stale')
  expect(await budgetOf(t, turn.agentTurnId)).toMatchObject({ tokens_used: 130, closed_at: expect.any(Date) })
})

it('[H7.5] wall time is a budget too: a turn over it is ended although it beats, and a turn within it is not', async () => {
  const [slow, quick] = [await spender('k1', { wallMs: 60_000 }), await spender('k2', { wallMs: 600_000 })]
  await t.kernel.record({ ...slow, cards: [{ type: 'agent.thought', content: { text: 'so far so good' } }] })
  const beating = { step: async () => void (await t.kernel.beat([slow, quick], null)) }
  const guard = guardOn(t)
  await pass(t, 50, guard, beating)
  expect((await turnRow(t, slow.agentTurnId)).outcome).toBeNull()
  expect(await ask(slow, 'k1-1', 5)).toMatchObject({ what: 'reserved', left: { tokens: null } })
  await pass(t, 10 + 2 * intervalSeconds, guard, beating)
  expect(await turnRow(t, slow.agentTurnId)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  expect((await turnRow(t, quick.agentTurnId)).outcome).toBeNull()
  const { content } = (await t.kernel.readCard((await turnRow(t, slow.agentTurnId)).deliverable_card_id!))!
  expect(content).toMatchObject({ text: expect.stringContaining('so far so good') })
})

it('50 concurrent children on 16 connections never spend more than the limit', async () => {
  const cap = 20_000
  const names = Array.from({ length: 50 }, (_, at) => `z${at}`)
  await t.agents(...names)
  const parent = await spender('z', { tokens: cap })
  await forkFrom(
    t,
    parent,
    'z-call',
    names.map((name) => reuse(name)),
  )
  const children = (await t.claim(1_000)).filter((turn) => turn.recursionDepth === 1)
  expect(children).toHaveLength(50)
  const db = await openDatabase({ url: t.url, poolSize: 16 })
  const kernel: Kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  let spent = 0
  let worst = 0
  let calls = 0
  const work = async (turn: ClaimedTurn, seed: number) => {
    for (let round = 0; ; round += 1) {
      const tokens = 50 + ((seed * 31 + round * 17) % 400)
      const reservationId = `${turn.agentTurnId}-${round}`
      const asked = { reservationId, tokens }
      const [first, second] = await Promise.all([kernel.reserve(turn, asked), kernel.reserve(turn, asked)])
      const answers = [first.what, second.what].toSorted()
      // If another child returned tokens between the two calls, the second call succeeded.
      if (!answers.includes('reserved')) break
      expect(['already', 'exceeded']).toContain(answers[0])
      calls += 1
      const used = Math.floor((tokens * ((seed + round) % 5)) / 4)
      worst = Math.max(worst, used)
      const settled = await Promise.all([
        kernel.commitUsage(turn, { reservationId, tokens: used }),
        kernel.commitUsage(turn, { reservationId, tokens: used }),
      ])
      expect(settled.map((one) => one.what).toSorted()).toEqual(['already', 'committed'])
      spent += used
    }
    // Some children succeed, some fail, some are stopped, and some leave a reservation open.
    if (
      seed % 4 === 1 &&
      (await kernel.reserve(turn, { reservationId: `${turn.agentTurnId}-left`, tokens: 3 })).what === 'reserved'
    )
      spent += 3
    if (seed % 4 === 3) await kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
    else await kernel.deliver({ ...turn, status: seed % 4 === 2 ? 'failed' : 'success', content: { text: 'spent' } })
  }
  const watch = { over: false, most: 0 }
  const watcher = (async () => {
    while (!watch.over) {
      const [row] = await kernel.db.query<{ sum: number }>({
        text: 'select coalesce(sum(r.tokens_used), 0)::int as sum from state.reservations r join state.budgets b using (budget_id) where b.parent_budget_id = (select budget_id from state.budgets where agent_turn_id = $1)',
        values: [parent.agentTurnId],
      })
      watch.most = Math.max(watch.most, row?.sum ?? 0)
    }
  })()
  await Promise.all(children.map(work))
  watch.over = true
  await watcher
  expect(watch.most).toBeLessThanOrEqual(cap)
  expect(spent).toBeLessThanOrEqual(cap)
  // The children used most of the cap, so the cap was the limit.
  expect(spent).toBeGreaterThan(cap - 50 * 450)
  expect(calls).toBeGreaterThan(50)
  await join(t, 3)
  expect(await budgetOf(t, parent.agentTurnId)).toMatchObject({
    tokens_used: spent,
    tokens_reserved: 0,
    tokens_escrowed: 0,
  })
  expect(await wrongSums(t)).toEqual([])
  await db.close()
})
