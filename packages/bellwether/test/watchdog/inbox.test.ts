/** W2.7 and W2.8: rows that wait because a ring was lost. */
import { beforeEach, expect, it } from 'vitest'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { guardOn, interventionsOf, pass } from '../support/watchdog.js'

const t = kernelPerFile()
beforeEach(() => void t.rings())

const everything = (turn: string) =>
  t.all('select * from state.agent_inbox where agent_turn_id = $1 order by inbox_id', turn)
const wakeup = (channel: string, worker = target) => `bw.v1.${project}.${channel}.cmd.agent.${worker}.wakeup`

it('[W2.7a] rings for a row that is pending for too long, and changes nothing in it', async () => {
  await t.agents('ann')
  const turn = await suspendedTurn(t, 'ann', grepCalls('a1'))
  await reportSuccess(t, 'a1')
  t.rings()
  const before = await everything(turn.agentTurnId)
  const head = await headOf(t, 'ann')
  const guard = guardOn(t)
  await guard.step()
  expect(t.rings()).toEqual([])
  await pass(t, 10, guard)
  expect(t.rings().map((ring) => ring.subject)).toContain(wakeup('public'))
  expect(await everything(turn.agentTurnId)).toEqual(before)
  expect(await headOf(t, 'ann')).toEqual(head)
  const noted = await t.all<{ after: object }>(
    `select "after" from state.interventions where kind = 'pending_wakeup' order by intervention_id`,
  )
  expect(noted.at(-1)?.after).toMatchObject({ worker_target: target, rows: 1 })
  await t.claim()
  await pass(t, 10, guard)
  expect(t.rings()).toEqual([])
})

it('[W2.7a] rings once per target and channel', async () => {
  await t.agents('bob', 'cat', 'dan')
  for (const [agentId, channelId] of [
    ['bob', 'one'],
    ['cat', 'one'],
    ['dan', 'two'],
  ] as const) {
    await t.kernel.enqueue({ projectId: project, agentId, instruction: 'x', channelId })
  }
  t.rings()
  const guard = guardOn(t, { dispatchedRetrySeconds: 10_000 })
  await t.advance(6)
  await guard.step()
  expect(
    t
      .rings()
      .map((ring) => ring.subject)
      .toSorted(),
  ).toEqual([wakeup('one'), wakeup('two')])
  await t.claim()
})

it('[W2.7b] skips a row without a known channel after the longer wait and not before', async () => {
  await t.agents('lost')
  const insert = (id: string, channel: string | null, agentId = 'lost') =>
    t.all(
      `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, turn_epoch)
       values ($1, $2, $3, 'w', $4, 'tool_result', 'pending', $5, 1)`,
      id,
      project,
      agentId,
      channel,
      `${id}-turn`,
    )
  await insert('lost-1', null)
  await insert('kept-1', 'public')
  await insert('ghost-1', 'public', 'ghost')
  const guard = guardOn(t)
  const row = (id: string) =>
    t.one<{ status: string; watchdog_error: string | null; watchdog_at: Date | null }>(
      'select * from state.agent_inbox where inbox_id = $1',
      id,
    )
  await pass(t, 55, guard)
  expect(await row('lost-1')).toMatchObject({ status: 'pending', watchdog_error: null })
  await pass(t, 10, guard)
  expect(await row('lost-1')).toMatchObject({
    status: 'skipped',
    watchdog_error: 'missing_channel',
    watchdog_at: expect.any(Date) as Date,
  })
  expect(await row('ghost-1')).toMatchObject({ status: 'skipped', watchdog_error: 'unknown_agent' })
  expect(await row('kept-1')).toMatchObject({ status: 'pending', watchdog_error: null })
  expect(await interventionsOf(t, 'lost-1-turn')).toMatchObject([
    { kind: 'pending_skipped', reason: 'missing_channel', before: { inbox: 'pending' }, after: { inbox: 'skipped' } },
  ])
  await t.claim()
})

it('[T3.2b] [W2.7a] does not ring for a row that claim refuses', async () => {
  await t.agents('forged')
  const turn = await t.running('forged')
  const insert = (type: string, turnId: string | null, epoch: number | null) =>
    t.all(
      `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, turn_epoch)
       values ($1, $2, 'forged', 'w', 'public', $3, 'pending', $4, $5)`,
      t.ids.next(),
      project,
      type,
      turnId,
      epoch,
    )
  await insert('turn', 'a-turn-of-no-agent', 7)
  await insert('tool_result', turn.agentTurnId, null)
  await insert('timeout', turn.agentTurnId, turn.turnEpoch - 1)
  await insert('stop', null, null)
  t.rings()
  const guard = guardOn(t)
  await pass(t, 20, guard)
  expect(t.rings()).toEqual([])
  const { refused } = await t.kernel.claim({ workerTarget: target, workerId: 'w1', max: 10, resumeLeaseSeconds: 30 })
  expect(refused).toHaveLength(4)
  await insert('stop', turn.agentTurnId, null)
  await pass(t, 10, guard)
  expect(t.rings().map((ring) => ring.subject)).toContain(wakeup('public'))
  await t.claim()
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ outcome: 'canceled' })
})

it('[W2.7b] keeps a row without a channel if its agent’s turn has one', async () => {
  await t.agents('known')
  const turn = await suspendedTurn(t, 'known', grepCalls('t1'))
  await reportSuccess(t, 't1')
  await t.all(`update state.agent_inbox set channel_id = null where correlation_id = 't1'`)
  await pass(t, 70, guardOn(t))
  expect(await t.claim()).toMatchObject([{ agentTurnId: turn.agentTurnId, kind: 'resume' }])
})

/** The state after a lost dispatch: an idle head and a queued row. */
async function lostDispatch(agentId: string, created = 0): Promise<string> {
  await t.agents(agentId)
  const turn = t.ids.next()
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, created_at)
     values ($1, $2, $3, 'w', 'public', 'turn', 'queued', $1, state.now() - make_interval(secs => $4))`,
    turn,
    project,
    agentId,
    created,
  )
  return turn
}

it('[W2.8] leases a queued turn on an idle agent after one interval, oldest first, and rings', async () => {
  const older = await lostDispatch('idle', 2)
  const younger = await lostDispatch('idle', 1)
  const guard = guardOn(t)
  await guard.step()
  expect((await headOf(t, 'idle')).status).toBe('idle')
  await pass(t, 5, guard)
  expect(await headOf(t, 'idle')).toMatchObject({ status: 'dispatched', active_agent_turn_id: older })
  expect(await turnRow(t, older)).toMatchObject({ status: 'pending', turn_epoch: (await headOf(t, 'idle')).turn_epoch })
  expect(await turnRow(t, younger)).toMatchObject({ status: 'queued', turn_epoch: null })
  expect(t.rings().map((ring) => ring.subject)).toContain(wakeup('public'))
  expect(await interventionsOf(t, older)).toMatchObject([
    { kind: 'queued_dispatch', before: { status: 'idle' }, after: { status: 'dispatched' } },
  ])
  await t.claim()
})

it('[W2.8] leases nothing from the queue of a busy agent', async () => {
  await t.agents('busy')
  const turn = await t.running('busy')
  const queued = await t.kernel.enqueue({ projectId: project, agentId: 'busy', instruction: 'wait' })
  await pass(t, 30, guardOn(t))
  expect(await headOf(t, 'busy')).toMatchObject({ active_agent_turn_id: turn.agentTurnId, turn_epoch: turn.turnEpoch })
  expect(await turnRow(t, queued.agentTurnId)).toMatchObject({ status: 'queued' })
})

it('[W2.8] a long queue that cannot be leased does not hide the others', async () => {
  // Another agent's turn uses its output box (T5.3).
  await t.agents('aa-holder')
  const holder = await t.running('aa-holder')
  await t.agents('aa-blocked')
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, payload, created_at)
     select 'blocked-' || n, $1, 'aa-blocked', 'w', 'public', 'turn', 'queued', 'blocked-' || n, jsonb_build_object('output_box_id', $2::text),
       state.now() - interval '100 seconds' from generate_series(1, 600) n`,
    project,
    holder.outputBoxId,
  )
  const turn = await lostDispatch('zz-last', 10)
  await guardOn(t).step()
  expect((await headOf(t, 'aa-blocked')).status).toBe('idle')
  expect((await headOf(t, 'zz-last')).active_agent_turn_id).toBe(turn)
})
