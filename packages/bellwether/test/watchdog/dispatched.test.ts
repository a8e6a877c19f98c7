/** A leased turn that no worker starts is announced again and then ended; a long queue is not a dead fleet. */
import { expect, it } from 'vitest'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { eventsOf, headOf, turnRow } from '../support/kernel-rows.js'
import { guardOn, interventionsOf, pass, tasksOf } from '../support/watchdog.js'

const t = kernelPerFile()

async function dispatched(agentId: string): Promise<string> {
  await t.agents(agentId)
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId, instruction: 'do it' })
  t.rings()
  return agentTurnId
}
const wakeup = `bw.v1.${project}.public.cmd.agent.${target}.wakeup`
const edges = async (turn: string) =>
  (await t.all('select edge_id from state.execution_edges where target_agent_turn_id = $1', turn)).length

it('[W2.4] rings again for a turn that was not started, and changes neither head nor row nor edges', async () => {
  const turn = await dispatched('ring')
  const head = await headOf(t, 'ring')
  const row = await turnRow(t, turn)
  const guard = guardOn(t, { pendingWakeupSeconds: 10_000 })
  await pass(t, 5, guard)
  expect(t.rings()).toEqual([])
  await pass(t, 10, guard)
  expect(t.rings().map((ring) => ring.subject)).toContain(wakeup)
  expect(await headOf(t, 'ring')).toEqual(head)
  expect(await turnRow(t, turn)).toEqual(row)
  expect(await edges(turn)).toBe(1)
  await pass(t, 5, guard)
  expect(await interventionsOf(t, turn)).toMatchObject([
    {
      kind: 'dispatched_retry',
      turn_epoch: head.turn_epoch,
      before: { inbox: 'pending' },
      after: { inbox: 'pending', turn_epoch: head.turn_epoch },
    },
  ])
  expect((await t.claim()).map((claimed) => claimed.agentTurnId)).toEqual([turn])
})

/** The fleet (one signed-in worker) claims another agent's turn. */
async function claimOther(agentId: string): Promise<void> {
  await t.all(`select state.sign_in('busy', $1, 1)`, target)
  await t.agents(agentId)
  await t.kernel.enqueue({ projectId: project, agentId, instruction: 'x' })
  expect(await t.claim(10, 'busy')).toMatchObject([{ agentId }])
}

const damage: Record<string, string> = {
  'a row put aside by hand': `update state.agent_inbox set status = 'error', error = 'oops' where agent_turn_id = $1`,
  'a row with another epoch': 'update state.agent_inbox set turn_epoch = 99 where agent_turn_id = $1',
  'a row of another target': `update state.agent_inbox set worker_target = 'nowhere' where agent_turn_id = $1`,
  'a row that looks taken': `update state.agent_inbox set status = 'processing', claimed_by = 'ghost' where agent_turn_id = $1`,
  'a row that is gone': 'delete from state.agent_inbox where agent_turn_id = $1',
}
for (const [position, [name, sql]] of Object.entries(damage).entries()) {
  it(`[W2.4] restores the inbox row from the head: ${name}`, async () => {
    const agentId = `restore-${position}`
    const turn = await dispatched(agentId)
    const head = await headOf(t, agentId)
    await t.all(sql, turn)
    expect(await t.claim()).toEqual([])
    await pass(t, 15, guardOn(t))
    expect(await headOf(t, agentId)).toEqual(head)
    expect(await turnRow(t, turn)).toMatchObject({
      status: 'pending',
      turn_epoch: head.turn_epoch,
      error: null,
      claimed_by: null,
    })
    expect(await edges(turn)).toBe(1)
    expect(await t.claim()).toMatchObject([
      { agentTurnId: turn, turnEpoch: head.turn_epoch, contextBoxId: expect.any(String) as string },
    ])
    expect((await interventionsOf(t, turn)).map((one) => one.kind)).toEqual(['dispatched_retry'])
  })
}

it('[W2.5] [W3.2] ends a turn that no worker started, with every part of an ending', async () => {
  const turn = await dispatched('dead')
  const next = await t.kernel.enqueue({ projectId: project, agentId: 'dead', instruction: 'and then' })
  const before = await headOf(t, 'dead')
  const guard = guardOn(t)
  await pass(t, 25, guard)
  expect(await headOf(t, 'dead')).toEqual(before)
  t.rings()
  await pass(t, 10, guard)

  const row = await turnRow(t, turn)
  expect(row).toMatchObject({
    status: 'consumed',
    outcome: 'timeout',
    error: 'dispatch_timeout',
    turn_epoch: before.turn_epoch + 1,
  })
  expect(await tasksOf(t, turn)).toMatchObject([
    { status: 'timeout', error: 'dispatch_timeout', deliverable_card_id: row.deliverable_card_id, agent_turn_id: turn },
  ])
  expect((await eventsOf(t, turn)).at(-1)).toMatchObject({
    kind: 'state',
    payload: { status: 'idle', error: 'dispatch_timeout', turn_epoch: before.turn_epoch + 1 },
  })
  expect(await t.all('select reason from state.force_terminations where agent_turn_id = $1', turn)).toEqual([
    { reason: 'dispatch_timeout' },
  ])
  expect((await interventionsOf(t, turn)).at(-1)).toMatchObject({
    kind: 'reap',
    reason: 'dispatch_timeout',
    before: { status: 'dispatched', turn_epoch: before.turn_epoch },
    after: { status: 'idle', turn_epoch: before.turn_epoch + 1, outcome: 'timeout' },
  })
  // The next turn is leased with a new epoch, and the bell rings.
  expect(await headOf(t, 'dead')).toMatchObject({
    status: 'dispatched',
    active_agent_turn_id: next.agentTurnId,
    turn_epoch: before.turn_epoch + 2,
  })
  expect(t.rings().map((ring) => ring.subject)).toContain(wakeup)
})

it('[W2.5] clears turn and channel if no turn follows', async () => {
  await dispatched('last')
  await pass(t, 35, guardOn(t))
  expect(await headOf(t, 'last')).toMatchObject({
    status: 'idle',
    active_agent_turn_id: null,
    active_channel_id: null,
    turn_deadline: null,
  })
})

it('[W2.5] keeps the queue of a fleet that claims turns, up to max_queue_seconds', async () => {
  const turn = await dispatched('queued-up')
  const guard = guardOn(t, { maxQueueSeconds: 200 })
  // The fleet claims other turns of its target, never this one.
  await t.all(`update state.agent_inbox set worker_target = 'elsewhere' where agent_turn_id = $1`, turn)
  for (let round = 0; round < 9; round += 1) {
    await claimOther(`claimed-${round}`)
    await pass(t, 20, guard)
    await t.all(`update state.agent_inbox set worker_target = 'elsewhere' where agent_turn_id = $1`, turn)
    expect((await headOf(t, 'queued-up')).status).toBe('dispatched')
  }
  await claimOther('claimed-9')
  await pass(t, 25, guard)
  expect(await turnRow(t, turn)).toMatchObject({ outcome: 'timeout', error: 'dispatch_timeout' })
})

it('[W2.5] ends the turn of a target whose live worker takes nothing, whatever other targets do', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'elsewhere', workerTarget: 'dead-fleet' }])
  const { agentTurnId } = await t.kernel.enqueue({ projectId: project, agentId: 'elsewhere', instruction: 'x' })
  await claimOther('claimed-here')
  await pass(t, 35, guardOn(t, {}, 'dead-fleet'))
  expect(await turnRow(t, agentTurnId)).toMatchObject({ error: 'dispatch_timeout' })
})

it('[W2.5] ends the queue of a fleet one timeout after its last claim', async () => {
  const turn = await dispatched('stranded')
  const guard = guardOn(t)
  await pass(t, 20, guard)
  await t.all(`update state.agent_inbox set worker_target = 'elsewhere' where agent_turn_id = $1`, turn)
  await claimOther('claimed-last')
  await pass(t, 25, guard)
  expect((await headOf(t, 'stranded')).status).toBe('dispatched')
  await pass(t, 10, guard)
  expect(await turnRow(t, turn)).toMatchObject({ error: 'dispatch_timeout' })
})
