/** Profiles, retirement, retention, and enqueues repeated within one instant. */
import { expect, it } from 'vitest'
import { enqueue, turnRow as newTurnRow } from '../../src/kernel/verbs/turn/enqueue.js'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { kernelPerFile, project, target } from '../support/kernel.js'

const t = kernelPerFile()

const lasts = (agentId: string) =>
  t.one<{ seconds: number }>(
    'select extract(epoch from turn_deadline - leased_at)::float as seconds from state.agent_state_head where agent_id = $1',
    agentId,
  )

it("[W2.9] takes a turn's deadline from the agent, else from its profile, else from the settings", async () => {
  await t.kernel.putProfile({
    projectId: project,
    profileId: 'short',
    name: 'short',
    workerTarget: target,
    spec: { turn_deadline_seconds: 90 },
  })
  const agent = { projectId: project, workerTarget: target }
  await t.kernel.putAgents([
    { ...agent, agentId: 'own', profileId: 'short', turnDeadlineSeconds: 7 },
    { ...agent, agentId: 'profiled', profileId: 'short' },
    { ...agent, agentId: 'plain' },
  ])
  for (const agentId of ['own', 'profiled', 'plain']) await t.kernel.enqueue({ projectId: project, agentId })
  expect([await lasts('own'), await lasts('profiled'), await lasts('plain')]).toEqual([
    { seconds: 7 },
    { seconds: 90 },
    { seconds: 3600 },
  ])
  await t.kernel.putAgents([{ ...agent, agentId: 'profiled', profileId: 'short' }])
  expect(await t.one('select profile_id from state.agent_state_head where agent_id = $1', 'profiled')).toEqual({
    profile_id: 'short',
  })
})

it('rejects an action on a retired agent', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'old', workerTarget: target, status: 'retired' }])
  const action = { projectId: project, agentId: 'old', actionId: 'a1', toolName: 'x', args: {} }
  expect(await t.kernel.uiAction(action)).toMatchObject({ what: 'rejected' })
})

it('recognises a repeated enqueue within the same instant of the clock', async () => {
  await t.agents('ann')
  await t.db.query({
    text: "create or replace function state.now() returns timestamptz language sql volatile as $$ select '2030-01-01'::timestamptz $$",
  })
  const row = newTurnRow(t.ids, { projectId: project, agentId: 'ann', instruction: 'do it', inboxId: 'i1' })
  const first = await enqueue(t.db, [row])
  expect(first.verdicts.map(({ what }) => what)).toEqual(['leased'])
  const second = await enqueue(t.db, [row])
  expect(second.verdicts).toMatchObject([
    { what: 'duplicate', agent_turn_id: row.agent_turn_id, detail: { inbox_id: 'i1', status: 'pending' } },
  ])
})

it('removes finished turns after the retention period, whatever refused rows precede them', async () => {
  await t.db.query({
    text: `insert into state.agent_inbox (inbox_id, project_id, agent_id, message_type, status, error, created_at)
      select '00-refused-' || n, '${project}', 'ann', 'turn', 'error', 'protocol_error', '2020-01-01' from generate_series(1, 9000) n`,
  })
  await t.db.query({
    text: `insert into state.agent_inbox (inbox_id, project_id, agent_id, message_type, status, agent_turn_id, outcome, ended_at, created_at)
      values ('01-past', '${project}', 'ann', 'turn', 'consumed', 'past', 'success', '2020-01-01', '2020-01-01')`,
  })
  while ((await prune(t.db, 30)) > 0);
  expect(await t.all("select inbox_id from state.agent_inbox where created_at < '2021-01-01'")).toEqual([])
  expect(
    (await t.one<{ count: number }>("select count(*) as count from state.agent_inbox where status = 'pending'")).count,
  ).toBeGreaterThan(0)
})
