/** Endings by the PMO: a running turn without beats (W2.6), a turn past its deadline (W2.9); with and without a box (W3.1). */
import { expect, it } from 'vitest'
import { setLimits } from '../../src/kernel/verbs/roster.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { eventsOf, headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, suspendedTurn } from '../support/kernel-turns.js'
import { guardOn, interventionsOf, pass, tasksOf } from '../support/watchdog.js'

const t = kernelPerFile()

it('[W2.6] [W3.1] [W3.2] ends a running turn without beats, and leases the next', async () => {
  await t.agents('quiet')
  const turn = await t.running('quiet')
  const next = await t.kernel.enqueue({ projectId: project, agentId: 'quiet', instruction: 'next' })
  const guard = guardOn(t)
  await pass(t, 295, guard)
  expect(await headOf(t, 'quiet')).toMatchObject({ status: 'running', turn_epoch: turn.turnEpoch })
  await pass(t, 10, guard)

  const row = await turnRow(t, turn.agentTurnId)
  expect(row).toMatchObject({
    status: 'consumed',
    outcome: 'failed',
    error: 'timeout_reaped_by_watchdog',
    turn_epoch: turn.turnEpoch + 1,
  })
  expect(await tasksOf(t, turn.agentTurnId)).toMatchObject([
    {
      status: 'failed',
      error: 'timeout_reaped_by_watchdog',
      deliverable_card_id: row.deliverable_card_id,
      output_box_id: turn.outputBoxId,
    },
  ])
  expect((await eventsOf(t, turn.agentTurnId)).at(-1)).toMatchObject({
    kind: 'state',
    payload: { status: 'idle', error: 'timeout_reaped_by_watchdog' },
  })
  const card = await t.kernel.readCard(row.deliverable_card_id!)
  expect(card).toMatchObject({
    type: 'task.deliverable',
    content: { status: 'failed', error: 'timeout_reaped_by_watchdog' },
  })
  expect((await t.kernel.readBoxes([turn.outputBoxId])).map((one) => one.card_id)).toContain(row.deliverable_card_id)
  expect(
    await t.all('select turn_epoch, reason from state.force_terminations where agent_turn_id = $1', turn.agentTurnId),
  ).toEqual([{ turn_epoch: turn.turnEpoch, reason: 'timeout_reaped_by_watchdog' }])
  expect(await interventionsOf(t, turn.agentTurnId)).toMatchObject([
    {
      kind: 'reap',
      before: { status: 'running', turn_epoch: turn.turnEpoch },
      after: { status: 'idle', outcome: 'failed' },
    },
  ])
  expect(await headOf(t, 'quiet')).toMatchObject({ status: 'dispatched', active_agent_turn_id: next.agentTurnId })
  // The dead worker returns, and the kernel accepts none of its writes.
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'late' } })).toEqual({ what: 'stale' })
  expect(await tasksOf(t, turn.agentTurnId)).toHaveLength(1)
})

it('[W2.6] a beat at the last moment keeps the turn', async () => {
  await t.agents('late-beat')
  const turn = await t.running('late-beat')
  const guard = guardOn(t)
  await pass(t, 295, guard)
  expect(await t.kernel.beat([turn], null)).toEqual(new Set([turn]))
  await pass(t, 295, guard)
  expect((await headOf(t, 'late-beat')).status).toBe('running')
  await pass(t, 10, guard)
  expect((await headOf(t, 'late-beat')).status).toBe('idle')
})

for (const status of ['dispatched', 'running'] as const) {
  it(`[W3.1] ends a ${status} turn without an output box, and reports it`, async () => {
    const agentId = `boxless-${status}`
    await t.kernel.putAgents([{ projectId: project, agentId, workerTarget: target, outputBox: false }])
    const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId, instruction: 'x' })
    if (status === 'running') await t.claim()
    await pass(t, status === 'running' ? 310 : 40, guardOn(t))
    expect(await turnRow(t, agentTurnId)).toMatchObject({ status: 'consumed', deliverable_card_id: null })
    expect(await tasksOf(t, agentTurnId)).toMatchObject([
      {
        status: status === 'running' ? 'failed' : 'timeout',
        deliverable_card_id: null,
        output_box_id: null,
        deliverable_error: 'no_output_box',
      },
    ])
    expect((await headOf(t, agentId)).status).toBe('idle')
  })
}

it('[W2.9] ends a beating turn at its deadline, which beats do not extend', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'endless', workerTarget: target, turnDeadlineSeconds: 120 }])
  const turn = await t.running('endless')
  const { turn_deadline: deadline } = await headOf(t, 'endless')
  const guard = guardOn(t)
  const beating = { step: () => t.kernel.beat([{ ...turn, activity: 'thinking' }], 'worker-1') }
  await pass(t, 115, guard, beating)
  expect(await headOf(t, 'endless')).toMatchObject({ status: 'running', turn_deadline: deadline })
  await pass(t, 10, beating, guard)
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({
    outcome: 'timeout',
    error: 'turn_deadline',
    turn_epoch: turn.turnEpoch + 1,
  })
  expect(await tasksOf(t, turn.agentTurnId)).toMatchObject([{ status: 'timeout', error: 'turn_deadline' }])
  expect(await t.kernel.beat([turn], 'worker-1')).toEqual(new Set())
  expect(await interventionsOf(t, turn.agentTurnId)).toMatchObject([
    { kind: 'reap', reason: 'turn_deadline', before: { status: 'running' } },
  ])
})

it('[W2.9] reclaim, suspend, receipt and resume do not extend the deadline; a suspended turn ends at it too', async () => {
  await t.kernel.putAgents([
    { projectId: project, agentId: 'busy-sleeper', workerTarget: target, turnDeadlineSeconds: 120 },
  ])
  await t.kernel.putTool({ projectId: project, toolName: 'grep', options: { timeout_seconds: 100_000 } })
  const turn = await suspendedTurn(t, 'busy-sleeper', grepCalls('d1', 'd2'))
  const { turn_deadline: deadline } = await headOf(t, 'busy-sleeper')
  const guard = guardOn(t)
  await pass(t, 50, guard)
  await t.kernel.report([{ projectId: project, toolCallId: 'd1', status: 'success' }])
  await t.claim()
  expect(await headOf(t, 'busy-sleeper')).toMatchObject({
    status: 'suspended',
    turn_deadline: deadline,
    waiting_tool_count: 1,
  })
  await pass(t, 65, guard)
  expect((await headOf(t, 'busy-sleeper')).status).toBe('suspended')
  await pass(t, 10, guard)
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ outcome: 'timeout', error: 'turn_deadline' })
  expect(
    await t.all(
      'select wait_status from state.turn_waiting_tools where agent_turn_id = $1 order by tool_call_id',
      turn.agentTurnId,
    ),
  ).toEqual([{ wait_status: 'applied' }, { wait_status: 'dropped' }])
})

it('[W2.9] a turn without its own deadline gets the configured one; the clock starts at the lease', async () => {
  await setLimits(t.db, { turnDeadlineSeconds: 100, maxRecursionDepth: 20 })
  await t.agents('housed')
  const turn = await t.running('housed')
  const later = await t.kernel.enqueue({ projectId: project, agentId: 'housed', instruction: 'waits in the queue' })
  const guard = guardOn(t)
  const beating = { step: () => t.kernel.beat([turn], 'worker-1') }
  await pass(t, 95, beating, guard)
  expect((await headOf(t, 'housed')).active_agent_turn_id).toBe(turn.agentTurnId)
  await pass(t, 10, beating, guard)
  const head = await headOf(t, 'housed')
  expect(head.active_agent_turn_id).toBe(later.agentTurnId)
  const [{ left }] = (await t.all<{ left: number }>(
    'select extract(epoch from turn_deadline - state.now())::float8 as left from state.agent_state_head where agent_id = $1',
    'housed',
  )) as [{ left: number }]
  expect(left).toBeGreaterThan(85)
})
