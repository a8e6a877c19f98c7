/** W2.1: the rows of a silent worker return to pending; a beating worker keeps its turn; a suspended turn is exempt. */
import { expect, it } from 'vitest'
import { kernelPerFile, project } from '../support/kernel.js'
import { eventsOf, headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, suspendedTurn } from '../support/kernel-turns.js'
import { guardOn, interventionsOf, pass, tasksOf, workerOn } from '../support/watchdog.js'

const t = kernelPerFile()

it('[W2.1] [W3.2] returns a silent worker’s row to pending with a new epoch, and the old worker can write nothing more', async () => {
  await t.agents('silent')
  const turn = await t.running('silent')
  await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'half done' } }] })
  // The reclaim also clears columns that an earlier epoch left on the row.
  await t.all('update state.agent_inbox set archived_at = state.now() where agent_turn_id = $1', turn.agentTurnId)
  const watcher = workerOn(t)
  await pass(t, 25, watcher)
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ status: 'processing', turn_epoch: turn.turnEpoch })
  t.rings()
  await pass(t, 10, watcher)

  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({
    status: 'pending',
    turn_epoch: turn.turnEpoch + 1,
    deaths: 1,
    processed_at: null,
    archived_at: null,
    claimed_by: null,
  })
  expect(await headOf(t, 'silent')).toMatchObject({ status: 'running', turn_epoch: turn.turnEpoch + 1 })
  expect(t.rings().length).toBeGreaterThan(0)
  expect(await interventionsOf(t, turn.agentTurnId)).toMatchObject([
    {
      kind: 'reclaim',
      before: { status: 'running', claimed_by: 'worker-1', turn_epoch: turn.turnEpoch },
      after: { inbox: 'pending', turn_epoch: turn.turnEpoch + 1, deaths: 1 },
    },
  ])

  const before = await eventsOf(t, turn.agentTurnId)
  const cards = async () =>
    (await t.all('select card_id from cards.box_cards where box_id = $1', turn.outputBoxId)).length
  const cardsBefore = await cards()
  expect(await t.kernel.beat([turn], 'worker-1')).toEqual(new Set())
  expect(await t.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text: 'late' } }] })).toBe(
    'stale',
  )
  expect(
    await t.kernel.suspend({ ...turn, stepId: 's', calls: [{ toolCallId: 'late', toolName: 'grep', args: {} }] }, 30),
  ).toBe('stale')
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'late' } })).toEqual({ what: 'stale' })
  expect([await eventsOf(t, turn.agentTurnId), await cards()]).toEqual([before, cardsBefore])

  const [taken] = await t.claim(10, 'worker-9')
  expect(taken).toMatchObject({
    agentTurnId: turn.agentTurnId,
    turnEpoch: turn.turnEpoch + 1,
    takenOver: true,
    deaths: 1,
  })
  const output = await t.kernel.readBoxes([taken!.outputBoxId])
  expect(output.map((card) => card.content)).toEqual([{ text: 'half done' }])
  expect(await t.kernel.deliver({ ...taken!, status: 'success', content: { text: 'done' } })).toEqual({ what: 'ended' })
  expect(await tasksOf(t, turn.agentTurnId)).toHaveLength(1)
})

it('[W2.1] [W2.6] keeps the turn of a worker that beats', async () => {
  await t.agents('beating')
  const turn = await t.running('beating')
  const beating = { step: () => t.kernel.beat([turn], 'worker-1') }
  await pass(t, 400, beating, workerOn(t), guardOn(t))
  expect(await headOf(t, 'beating')).toMatchObject({ status: 'running', turn_epoch: turn.turnEpoch })
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ status: 'processing', deaths: 0 })
  expect(await interventionsOf(t, turn.agentTurnId)).toEqual([])
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })).toEqual({ what: 'ended' })
})

it('[W2.1] reclaims neither the row of a suspended turn nor rows of another target', async () => {
  await t.agents('asleep')
  await t.kernel.putTool({ projectId: project, toolName: 'grep', options: { timeout_seconds: 200 } })
  const turn = await suspendedTurn(t, 'asleep', grepCalls('sleep-1'))
  await t.agents('foreign')
  const foreign = await t.running('foreign')
  await pass(t, 100, workerOn(t, { workerTarget: 'another' }))
  expect(await turnRow(t, foreign.agentTurnId)).toMatchObject({ status: 'processing', turn_epoch: foreign.turnEpoch })
  await pass(t, 60, workerOn(t))
  expect(await turnRow(t, foreign.agentTurnId)).toMatchObject({ status: 'pending' })
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({
    status: 'processing',
    turn_epoch: turn.turnEpoch,
    deaths: 0,
  })
  expect(await headOf(t, 'asleep')).toMatchObject({ status: 'suspended', turn_epoch: turn.turnEpoch })
  await t.all(`delete from resource.tools where tool_name = 'grep'`)
})

it('[W2.1] reaps a turn that max_deaths workers have tried, and not sooner', async () => {
  await t.agents('poison')
  // A turn beside it would share the deaths, and no death would be charged.
  const others = await t.all<{ turn: string }>(
    'select active_agent_turn_id as turn from state.agent_state_head where active_agent_turn_id is not null',
  )
  for (const { turn } of others) await t.kernel.stop({ projectId: project, agentTurnId: turn })
  const first = await t.running('poison')
  const watcher = workerOn(t)
  const guard = guardOn(t)
  for (let worker = 2; worker <= 3; worker += 1) {
    await pass(t, 35, watcher, guard)
    const [taken] = (await t.claim(10, `worker-${worker}`)).filter((one) => one.agentId === 'poison')
    expect(taken).toMatchObject({ agentTurnId: first.agentTurnId, turnEpoch: first.turnEpoch + worker - 1 })
  }
  await pass(t, 25, watcher, guard)
  expect((await headOf(t, 'poison')).status).toBe('running')
  await pass(t, 10, watcher, guard)
  expect(await turnRow(t, first.agentTurnId)).toMatchObject({ outcome: 'failed', error: 'max_deaths' })
  expect(await tasksOf(t, first.agentTurnId)).toMatchObject([{ status: 'failed', error: 'max_deaths' }])
  expect((await interventionsOf(t, first.agentTurnId)).map((one) => one.kind)).toEqual(['reclaim', 'reclaim', 'reap'])
})

it('[W2.1] returns a receipt to pending, and refuses a row whose turn is not its agent’s', async () => {
  await t.agents('odd')
  const insert = (id: string, type: string) =>
    t.all(
      `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, message_type, status, agent_turn_id, turn_epoch, processed_at)
       values ($1, $2, 'odd', 'w', $3, 'processing', $4, 7, state.now())`,
      id,
      project,
      type,
      `${id}-turn`,
    )
  await insert('odd-receipt', 'tool_result')
  await insert('odd-turn', 'turn')
  const watcher = workerOn(t)
  await pass(t, 25, watcher)
  const rows = () =>
    t.all('select inbox_id, status, processed_at from state.agent_inbox where agent_id = $1 order by 1', 'odd')
  expect(await rows()).toMatchObject([{ status: 'processing' }, { status: 'processing' }])
  await pass(t, 10, watcher)
  expect(await rows()).toMatchObject([
    { inbox_id: 'odd-receipt', status: 'pending', processed_at: null },
    { inbox_id: 'odd-turn', status: 'error' },
  ])
  expect(await interventionsOf(t, 'odd-receipt-turn')).toMatchObject([
    { kind: 'reclaim', before: { inbox: 'processing' }, after: { inbox: 'pending' } },
  ])
})
