import { expect, it } from 'vitest'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { edgesTo, eventsOf, fingerprint, headOf, inboxRow, turnRow } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn, grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'

const t = kernelPerFile()

const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

it('[T3.1a] enqueue writes the row and its edge together, with pointers, trace and lineage, then rings the target', async () => {
  await t.agents('ann')
  t.rings()
  const { agentTurnId, inboxId } = await enqueueTurn(t, 'ann', {
    traceparent: trace,
    parentStepId: 'step-0',
    source: { agentId: 'boss', agentTurnId: 'turn-0', stepId: 'step-0' },
    correlationId: 'order-1',
    recursionDepth: 2,
    channelId: 'team',
  })
  const row = await inboxRow(t, inboxId)
  expect(row).toMatchObject({
    agent_turn_id: agentTurnId,
    message_type: 'turn',
    traceparent: trace,
    parent_step_id: 'step-0',
    source_agent_id: 'boss',
    source_step_id: 'step-0',
    recursion_depth: 2,
    channel_id: 'team',
    correlation_id: 'order-1',
  })
  expect(Object.keys(row.payload)).toEqual(['context_box_id'])
  expect(await edgesTo(t, agentTurnId)).toMatchObject([
    {
      primitive: 'enqueue',
      edge_phase: 'request',
      source_agent_id: 'boss',
      source_agent_turn_id: 'turn-0',
      target_agent_id: 'ann',
      correlation_id: 'order-1',
      trace_id: trace.split('-')[1],
      parent_step_id: 'step-0',
      recursion_depth: 2,
    },
  ])
  expect(t.rings()).toEqual([
    { subject: `bw.v1.${project}.team.cmd.agent.${target}.wakeup`, payload: { agent_id: 'ann', inbox_id: inboxId } },
  ])
})

it('[T3.1a] a turn for a busy agent is queued with its row and edge, and the target rings when it is leased', async () => {
  await t.agents('abe')
  const first = await t.running('abe')
  t.rings()
  const { agentTurnId, inboxId } = await enqueueTurn(t, 'abe', { traceparent: trace, correlationId: 'order-2' })
  expect(await inboxRow(t, inboxId)).toMatchObject({ status: 'queued', turn_epoch: null, traceparent: trace })
  expect(await edgesTo(t, agentTurnId)).toMatchObject([
    { primitive: 'enqueue', edge_phase: 'request', correlation_id: 'order-2', trace_id: trace.split('-')[1] },
  ])
  expect(t.rings()).toEqual([])
  await deliverTurn(t, first)
  expect(t.rings()).toMatchObject([{ payload: { agent_id: 'abe', inbox_id: inboxId } }])
})

it('[T3.1a] the inbox row is its edge: if it is rejected, nothing is written and nothing rings', async () => {
  await t.agents('bea')
  t.rings()
  await t.all("alter table state.agent_inbox add constraint broken check (correlation_id <> 'unlucky')")
  const before = await fingerprint(t.db)
  await expect(enqueueTurn(t, 'bea', { correlationId: 'unlucky' })).rejects.toThrow('broken')
  expect(await fingerprint(t.db)).toEqual(before)
  expect(t.rings()).toEqual([])
  await t.all('alter table state.agent_inbox drop constraint broken')
})

it('[T3.1b] a turn waits as queued without an epoch; the lease of the idle agent raises the epoch, makes the row pending and wakes the worker', async () => {
  await t.agents('cid')
  const first = await enqueueTurn(t, 'cid')
  const second = await enqueueTurn(t, 'cid')
  expect(await turnRow(t, second.agentTurnId)).toMatchObject({ status: 'queued', turn_epoch: null })
  expect(await turnRow(t, first.agentTurnId)).toMatchObject({ status: 'pending', turn_epoch: 1 })
  expect(await headOf(t, 'cid')).toMatchObject({
    status: 'dispatched',
    turn_epoch: 1,
    active_agent_turn_id: first.agentTurnId,
  })
  const [turn] = (await t.claim()).filter((one) => one.agentId === 'cid')
  t.rings()
  expect(await deliverTurn(t, turn!)).toEqual({ what: 'ended' })
  expect(await headOf(t, 'cid')).toMatchObject({
    status: 'dispatched',
    turn_epoch: 2,
    active_agent_turn_id: second.agentTurnId,
  })
  expect(await turnRow(t, second.agentTurnId)).toMatchObject({ status: 'pending', turn_epoch: 2 })
  expect(t.rings()).toMatchObject([{ payload: { agent_id: 'cid', inbox_id: second.inboxId } }])
})

it('[T3.1d] every enqueue has its request edge and every receipt (result, timeout, stop) its response edge', async () => {
  await t.agents('fay')
  const turn = await suspendedTurn(t, 'fay', grepCalls('fay-1', 'fay-2'))
  await reportSuccess(t, 'fay-1')
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
  const edges = await edgesTo(t, turn.agentTurnId)
  expect(edges.map((edge) => [edge.primitive, edge.edge_phase, edge.correlation_id])).toEqual([
    ['enqueue', 'request', null],
    ['report', 'response', 'fay-1'],
    ['report', 'response', turn.agentTurnId],
  ])
  const unmatched =
    await t.all(`select i.inbox_id from state.agent_inbox i left join state.execution_edges e on e.edge_id = i.inbox_id
    where e.edge_id is null or (e.primitive = 'enqueue') <> (i.message_type in ('turn', 'ui_action'))`)
  expect(unmatched).toEqual([])
})

it('[T1.5] one enqueue is one turn: the kernel creates the id, and a repeated correlation id returns the same turn', async () => {
  await t.agents('gus')
  const twice = await Promise.all([
    enqueueTurn(t, 'gus', { correlationId: 'once' }),
    enqueueTurn(t, 'gus', { correlationId: 'once' }),
  ])
  const later = await enqueueTurn(t, 'gus', { correlationId: 'once' })
  expect(new Set([...twice, later].map((one) => one.agentTurnId)).size).toBe(1)
  expect(later).toMatchObject({ duplicate: true, status: 'pending' })
  const other = await enqueueTurn(t, 'gus', { correlationId: 'twice' })
  expect(other.agentTurnId).not.toBe(later.agentTurnId)
  expect(await t.all("select from state.agent_inbox where agent_id = 'gus'")).toHaveLength(2)
  expect(await t.all("select from state.execution_edges where target_agent_id = 'gus'")).toHaveLength(2)
})

it('[T1.5] only the lease creates an epoch: every turn of an agent has its own, one higher, and one delivery', async () => {
  await t.agents('hal')
  await t.kernel.enqueueMany([1, 2, 3].map((n) => ({ projectId: project, agentId: 'hal', instruction: `${n}` })))
  const epochs = []
  for (let left = 3; left > 0; left -= 1) {
    const [turn] = (await t.claim()).filter((one) => one.agentId === 'hal')
    epochs.push(turn!.turnEpoch)
    expect(await deliverTurn(t, turn!)).toEqual({ what: 'ended' })
    expect(await eventsOf(t, turn!.agentTurnId, 'task')).toHaveLength(1)
  }
  expect(epochs).toEqual([1, 2, 3])
  expect((await t.claim()).filter((one) => one.agentId === 'hal')).toEqual([])
})

it('[T3.2c] a lease writes trace_id and parent_step_id to the head, and an ending clears them', async () => {
  await t.agents('ida')
  await enqueueTurn(t, 'ida', { traceparent: trace, parentStepId: 'step-9' })
  expect(await headOf(t, 'ida')).toMatchObject({ trace_id: trace.split('-')[1], parent_step_id: 'step-9' })
  const [turn] = (await t.claim()).filter((one) => one.agentId === 'ida')
  await deliverTurn(t, turn!)
  expect(await headOf(t, 'ida')).toMatchObject({ trace_id: null, parent_step_id: null })
})
