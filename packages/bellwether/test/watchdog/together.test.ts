/** Several guards at once, and a guard whose rules fail. */
import { errorMessage } from '@bellwether/base'
import { expect, it } from 'vitest'
import { kernelPerTest, project, target } from '../support/kernel.js'
import { headOf } from '../support/kernel-rows.js'
import { grepCalls, suspendedTurn } from '../support/kernel-turns.js'
import { guardOn, interventionsOf, pass, tasksOf, workerOn } from '../support/watchdog.js'

const t = kernelPerTest()

const names = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
const steps = (watchers: readonly { step(): Promise<unknown> }[]) => ({
  step: () => Promise.all(watchers.map((one) => one.step())),
})
const count = async (sql: string) => (await t.one<{ n: number }>(`select count(*)::int as n from ${sql}`)).n

it('[W2.5] [W2.6] [W2.8] concurrent guards do nothing twice', async () => {
  const agents = names('a', 60)
  await t.agents(...agents)
  for (const agentId of agents) {
    await t.kernel.enqueue({ projectId: project, agentId, instruction: 'first' })
    await t.kernel.enqueue({ projectId: project, agentId, instruction: 'second' })
  }
  expect(await t.claim(30)).toHaveLength(30)
  const guards = Array.from({ length: 4 }, () => guardOn(t))
  await pass(t, 330, steps(guards))
  expect(await count(`state.events where kind = 'task'`)).toBe(90 + 30)
  expect(
    await count("(select agent_turn_id from state.events where kind = 'task' group by 1 having count(*) > 1) doubled"),
  ).toBe(0)
  expect(
    await count(
      `(select agent_turn_id from state.interventions where kind = 'reap' group by 1 having count(*) > 1) doubled`,
    ),
  ).toBe(0)
  expect(await count(`cards.cards where type = 'task.deliverable'`)).toBe(120)
  expect(await count(`state.interventions where kind = 'reap'`)).toBe(120)
  // Each agent had two turns: two leases and two reaps, four epochs.
  const epochs = await t.all<{ turn_epoch: number }>('select distinct turn_epoch from state.agent_state_head')
  expect(epochs).toEqual([{ turn_epoch: 4 }])
})

it('[W2.1] [W2.2a] concurrent worker watchdogs do nothing twice', async () => {
  const agents = names('s', 20)
  await t.agents(...agents)
  const turns = []
  for (const agentId of agents) turns.push(await suspendedTurn(t, agentId, grepCalls(`${agentId}-c1`, `${agentId}-c2`)))
  await t.agents('silent')
  const silent = await t.running('silent')
  const watchers = Array.from({ length: 4 }, (_, index) => workerOn(t, { workerId: `w-${index}` }))
  await pass(t, 45, steps(watchers))
  expect(await count(`state.agent_inbox where message_type = 'timeout'`)).toBe(40)
  expect(await count(`cards.cards where type = 'tool.result'`)).toBe(40)
  for (const turn of turns)
    expect((await interventionsOf(t, turn.agentTurnId)).map((one) => one.kind)).toEqual(['tool_timeout'])
  expect(await headOf(t, 'silent')).toMatchObject({ turn_epoch: silent.turnEpoch + 1 })
})

const breakIt = (verb: string, args: string, returns = 'setof state.verdict') =>
  t.all(
    `create or replace function state.${verb}(${args}) returns ${returns} language plpgsql as $$ begin raise exception 'broken ${verb}'; end $$`,
  )

const broken: Record<string, () => Promise<unknown>> = {
  sweep_queued: () => breakIt('sweep_queued', 'p_older_than_seconds double precision, p_limit int'),
  retry_dispatched: () => breakIt('retry_dispatched', 'p_retry_seconds double precision, p_limit int'),
  wake_pending: () =>
    breakIt('wake_pending', 'p_wakeup_seconds double precision, p_skip_seconds double precision, p_limit int'),
  reap: () => breakIt('reap', 'p_settings json, p_card_ids text[]'),
}

for (const [verb, breakVerb] of Object.entries(broken)) {
  it(`a guard whose ${verb} fails reports it and runs the other rules`, async () => {
    await t.agents('queued', 'pending', 'running')
    const running = await t.running('running')
    await t.kernel.putAgents([{ projectId: project, agentId: 'far', workerTarget: 'far' }])
    await t.kernel.enqueue({ projectId: project, agentId: 'pending', instruction: 'x' })
    await t.all(
      `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id)
       values ('q', $1, 'queued', $2, 'public', 'turn', 'queued', 'q')`,
      project,
      target,
    )
    const guard = guardOn(t, { activeReapSeconds: 20, dispatchedTimeoutSeconds: 10_000 })
    await breakVerb()
    t.rings()
    const outcomes: string[] = []
    const step = async () => outcomes.push(await guard.step().then(() => 'ok', errorMessage))
    await pass(t, 30, { step })
    // The look at all heads finds no work for this rule until a turn has waited for dispatchedRetrySeconds.
    const failed = '1 watchdog rules failed'
    expect([...new Set(outcomes)]).toEqual(verb === 'retry_dispatched' ? ['ok', failed] : [failed])
    expect((await headOf(t, 'queued')).status).toBe(verb === 'sweep_queued' ? 'idle' : 'dispatched')
    expect(await tasksOf(t, running.agentTurnId)).toHaveLength(verb === 'reap' ? 0 : 1)
    const kinds = new Set(
      (await t.all<{ kind: string }>('select kind from state.interventions')).map((one) => one.kind),
    )
    expect(kinds.has('dispatched_retry')).toBe(verb !== 'retry_dispatched')
    expect(kinds.has('pending_wakeup')).toBe(verb !== 'wake_pending')
    expect(t.rings().length).toBeGreaterThan(0)
  })
}
