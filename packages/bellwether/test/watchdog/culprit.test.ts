/** W2.1: a worker's death is charged to the turn that kills its worker, and not to the turns beside it. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { signIn, signOut } from '../../src/kernel/verbs/roster.js'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import { project, target, testKernel, type TestKernel } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { guardOn, intervalSeconds, interventionsOf, pass, workerOn } from '../support/watchdog.js'

let t: TestKernel
beforeEach(async () => {
  t = await testKernel({ isReused: true })
})
afterEach(() => t.drop())

const concurrency = 8
const claimAs = (workerId: string, max = concurrency) =>
  t.kernel.claim({ workerTarget: target, workerId, max, resumeLeaseSeconds: 30 })
const turnOf = (agentId: string) =>
  t.one<{ outcome: string | null; error: string | null; deaths: number }>(
    'select outcome, error, deaths from state.agent_inbox where agent_id = $1',
    agentId,
  )

it('[W2.1] ends a turn that kills its worker, and every turn beside it succeeds', async () => {
  const sleepers = ['s1', 's2', 's3', 's4', 's5', 's6']
  await t.agents(...sleepers, 'poison')
  const { agentTurnId: poison } = await t.kernel.enqueue({ projectId: project, agentId: 'poison' })
  for (const agentId of sleepers) await t.kernel.enqueue({ projectId: project, agentId })
  const watchers = [workerOn(t), guardOn(t)]
  let deaths = 0
  // One worker at a time, as `up` keeps one per target. A sleeper needs 130 s in one worker.
  for (let steps = 0; steps < 600 && (await turnOf('poison')).outcome === null; steps += 0) {
    const workerId = `worker-${deaths}`
    const running = new Map<string, { turn: ClaimedTurn; since: number }>()
    for (let second = 0; ; second += intervalSeconds) {
      await signIn(t.db, workerId, target, concurrency, concurrency - running.size)
      const { turns } = await claimAs(workerId, concurrency - running.size)
      for (const turn of turns) running.set(turn.agentId, { turn, since: second })
      if (running.has('poison')) break
      const held = [...running.values()]
      if (held.length === 0) break
      await t.kernel.beat(
        held.map(({ turn }) => turn),
        workerId,
      )
      for (const { turn, since } of held) {
        if (second - since < 130) continue
        expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'slept' } })).toEqual({
          what: 'ended',
        })
        running.delete(turn.agentId)
      }
      await pass(t, intervalSeconds, ...watchers)
      steps += 1
    }
    deaths += 1
    await pass(t, 40, ...watchers)
    steps += 8
  }
  // The sleepers that were left when the poison ended.
  for (
    let round = 0;
    round < 60 && (await t.all("select from state.agent_state_head where status <> 'idle'")).length > 0;
    round += 1
  ) {
    const { turns } = await claimAs('last')
    for (const turn of turns) await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'slept' } })
    await pass(t, intervalSeconds, ...watchers)
  }
  expect(await turnRow(t, poison)).toMatchObject({ outcome: 'failed', error: 'max_deaths', deaths: 3 })
  for (const agentId of sleepers) expect(await turnOf(agentId)).toMatchObject({ outcome: 'success', deaths: 0 })
  // Three shared deaths (8, 4, 2 turns at once), then three alone.
  expect(deaths).toBeLessThanOrEqual(7)
})

it('[W2.1] charges a turn that was alone in its worker, and none of several', async () => {
  await t.agents('one', 'two', 'alone')
  await signIn(t.db, 'crowded', target, concurrency, 0)
  for (const agentId of ['one', 'two']) await t.kernel.enqueue({ projectId: project, agentId })
  expect((await claimAs('crowded')).turns).toHaveLength(2)
  await t.kernel.enqueue({ projectId: project, agentId: 'alone' })
  expect((await claimAs('quiet')).turns).toHaveLength(1)
  await pass(t, 40, workerOn(t))
  expect((await turnOf('alone')).deaths).toBe(1)
  expect((await turnOf('one')).deaths).toBe(0)
  const [{ agent_turn_id: turn }] = (await t.all<{ agent_turn_id: string }>(
    "select agent_turn_id from state.agent_inbox where agent_id = 'two'",
  )) as [{ agent_turn_id: string }]
  expect(await interventionsOf(t, turn)).toMatchObject([{ kind: 'reclaim', after: { deaths: 0, shared_deaths: 1 } }])
})

it('[W2.1] judges the turns of a dead worker together, though their last beats differ', async () => {
  await t.agents('old', 'new')
  await signIn(t.db, 'dying', target, concurrency, 7)
  await t.kernel.enqueue({ projectId: project, agentId: 'old' })
  await claimAs('dying')
  const watcher = workerOn(t)
  await pass(t, 5, watcher)
  await signIn(t.db, 'dying', target, concurrency, 7)
  await t.kernel.enqueue({ projectId: project, agentId: 'new' })
  expect((await claimAs('dying')).turns).toMatchObject([{ agentId: 'new' }])
  await pass(t, 45, watcher)
  for (const agentId of ['old', 'new']) {
    expect(await turnOf(agentId)).toMatchObject({ deaths: 0 })
    expect(await headOf(t, agentId)).toMatchObject({ shared_deaths: 1 })
  }
})

it('[W2.1] gives a turn that shared deaths fewer neighbours, at the end none', async () => {
  const others = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7']
  await t.agents('odd', ...others)
  await t.kernel.enqueue({ projectId: project, agentId: 'odd' })
  for (const agentId of others) await t.kernel.enqueue({ projectId: project, agentId })
  await t.all("update state.agent_state_head set shared_deaths = 1 where agent_id = 'odd'")
  const first = await claimAs('w1')
  expect(first.turns).toHaveLength(4)
  // It is held back until one of the four ends.
  expect(first).toMatchObject({ heldBack: true, again: false })
  expect(await claimAs('w1', 4)).toMatchObject({ turns: [], heldBack: true, again: false })
  await t.kernel.deliver({
    ...first.turns.find((turn) => turn.agentId !== 'odd')!,
    status: 'success',
    content: { text: '' },
  })
  expect((await claimAs('w1', 5)).turns).toHaveLength(1)
  // Another worker without such a turn takes what is left.
  expect((await claimAs('w2')).turns).toHaveLength(3)

  await t.all("update state.agent_state_head set shared_deaths = 3 where agent_id = 'odd'")
  expect(await claimAs('w1', 4)).toMatchObject({ turns: [], heldBack: true })
})

it('[W2.1] charges nothing for a worker that shuts down, however often it restarts', async () => {
  await t.agents('long', 'other')
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'long' })
  await t.kernel.enqueue({ projectId: project, agentId: 'other' })
  const watcher = workerOn(t)
  for (let restart = 1; restart <= 4; restart += 1) {
    const workerId = `restarted-${restart}`
    await signIn(t.db, workerId, target, concurrency, concurrency)
    const { turns } = await claimAs(workerId)
    expect(turns).toHaveLength(2)
    await signOut(t.db, workerId)
    if (restart % 2 === 0) await t.kernel.handBack(turns, workerId)
    else await pass(t, 40, watcher)
  }
  expect(await turnRow(t, agentTurnId)).toMatchObject({ status: 'pending', deaths: 0 })
  expect(await headOf(t, 'long')).toMatchObject({ status: 'running', shared_deaths: 0 })
})

it('[W2.1] hands turns back at once when a worker drains, and only those that have stopped', async () => {
  await t.agents('stops', 'ignores')
  for (const agentId of ['stops', 'ignores']) await t.kernel.enqueue({ projectId: project, agentId })
  const { worker } = workerOn(t, {
    workerId: 'draining',
    agent: ({ turn, signal }) =>
      new Promise((_, reject) => {
        if (turn.agentId === 'stops') signal.addEventListener('abort', () => reject(new Error('stopped')))
      }),
  })
  expect(await worker.step()).toMatchObject({ started: 2 })
  await worker.drain(0)
  const rows = await t.all<{ agent_id: string; status: string; deaths: number; turn_epoch: number }>(
    'select agent_id, status, deaths, turn_epoch from state.agent_inbox order by agent_id',
  )
  expect(rows).toEqual([
    { agent_id: 'ignores', status: 'processing', deaths: 0, turn_epoch: 1 },
    { agent_id: 'stops', status: 'pending', deaths: 0, turn_epoch: 2 },
  ])
})
