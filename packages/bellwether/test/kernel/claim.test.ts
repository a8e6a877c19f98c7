import { expect, it } from 'vitest'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { eventsOf, headOf, inboxRow, turnRow } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn, grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { runTurns, testWorker } from '../support/worker.js'
import { openDatabase } from '../../src/ports/database/pool.js'

const t = kernelPerFile()

it('[T3.2a] a claim takes pending rows oldest first and skips locked heads without waiting', async () => {
  await t.agents('a1', 'a2', 'a3')
  for (const agent of ['a2', 'a3', 'a1']) await enqueueTurn(t, agent)
  const other = await openDatabase({ url: t.url, poolSize: 1 })
  await other.transaction(async (tx) => {
    await tx.query({ text: "select from state.agent_state_head where agent_id = 'a3' for no key update" })
    const claimed = await t.kernel.claim({ workerTarget: target, workerId: 'w1', max: 2, resumeLeaseSeconds: 30 })
    expect(claimed.turns.map((turn) => turn.agentId)).toEqual(['a2', 'a1'])
    const rest = await t.kernel.claim({ workerTarget: target, workerId: 'w1', max: 2, resumeLeaseSeconds: 30 })
    expect(rest).toMatchObject({ turns: [], again: true })
  })
  await other.close()
  expect((await t.claim()).map((turn) => turn.agentId)).toEqual(['a3'])
})

it('[T3.2a] a claim moves dispatched to running under its fence and leaves no lock', async () => {
  await t.agents('b1')
  const { agentTurnId, inboxId } = await enqueueTurn(t, 'b1')
  await t.claim(10, 'worker-9')
  expect(await headOf(t, 'b1')).toMatchObject({ status: 'running', active_agent_turn_id: agentTurnId, turn_epoch: 1 })
  expect(await inboxRow(t, inboxId)).toMatchObject({ status: 'processing', claimed_by: 'worker-9' })
  await t.one("select from state.agent_state_head where agent_id = 'b1' for update nowait")
})

it('[T3.2a] while an agent works, no transaction of its worker holds a lock on its head or its inbox row', async () => {
  await t.agents('m1')
  const { inboxId } = await enqueueTurn(t, 'm1')
  const worker = testWorker(t, () => async () => {
    await t.one("select from state.agent_state_head where agent_id = 'm1' for update nowait")
    await t.one('select from state.agent_inbox where inbox_id = $1 for update nowait', inboxId)
    return { deliver: { text: 'no lock' } }
  })
  await runTurns(worker)
  expect(await inboxRow(t, inboxId)).toMatchObject({ outcome: 'success' })
})

it('[T3.2a] a worker takes only rows of its target, and no more than it requested', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'elsewhere', workerTarget: 'gpu' }])
  await t.agents('c1', 'c2', 'c3')
  for (const agent of ['elsewhere', 'c1', 'c2', 'c3']) await enqueueTurn(t, agent)
  expect((await t.claim(2)).map((turn) => turn.agentId)).toEqual(['c1', 'c2'])
  expect((await t.claim()).map((turn) => turn.agentId)).toEqual(['c3'])
})

it('[T3.2b] a row without a turn id or with another epoch is refused, logged, and does not block its agent', async () => {
  await t.agents('d1', 'd2')
  const forged = t.ids.next()
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, channel_id, message_type, status, agent_turn_id, turn_epoch)
     values ($1, $2, 'd1', 'public', 'turn', 'pending', null, 1), ($3, $2, 'd2', 'public', 'turn', 'pending', $3, 99)`,
    forged,
    project,
    t.ids.next(),
  )
  const lines: object[] = []
  const log = { info: () => undefined, warn: (fields: object) => void lines.push(fields), error: () => undefined }
  const worker = testWorker(t, () => undefined, { log })
  expect(await worker.step()).toMatchObject({ started: 0 })
  expect(await inboxRow(t, forged)).toMatchObject({ status: 'error', error: 'protocol_error: no agent_turn_id' })
  expect(lines).toMatchObject([{ agent_id: 'd1', inbox_id: forged }, { agent_id: 'd2' }])
  for (const agent of ['d1', 'd2']) expect(await deliverTurn(t, await t.running(agent))).toEqual({ what: 'ended' })
})

it('[T3.2b] a turn whose row has a wrong epoch is refused, and the watchdog repairs it', async () => {
  await t.agents('e1')
  const { agentTurnId, inboxId } = await enqueueTurn(t, 'e1')
  await t.all('update state.agent_inbox set turn_epoch = 41 where inbox_id = $1', inboxId)
  expect(await t.claim()).toEqual([])
  expect(await inboxRow(t, inboxId)).toMatchObject({ status: 'error' })
  await t.advance(11)
  await t.all('select * from state.retry_dispatched(10, 10)')
  expect(await inboxRow(t, inboxId)).toMatchObject({ status: 'pending', turn_epoch: 1 })
  const [turn] = await t.claim()
  expect(turn).toMatchObject({ agentTurnId, turnEpoch: 1 })
  expect(await deliverTurn(t, turn!)).toEqual({ what: 'ended' })
})

it('[T3.2d] a worker takes turns of many agents at once, and of each agent only the leased turn', async () => {
  await t.agents('f1', 'f2')
  const first = await enqueueTurn(t, 'f1')
  const second = await enqueueTurn(t, 'f1')
  const third = await enqueueTurn(t, 'f2')
  const batch = await t.claim()
  expect(batch.map((turn) => turn.agentTurnId)).toEqual([first.agentTurnId, third.agentTurnId])
  expect(await t.claim()).toEqual([])
  expect(await turnRow(t, second.agentTurnId)).toMatchObject({ status: 'queued' })
  await deliverTurn(t, batch[0]!)
  expect((await t.claim()).map((turn) => turn.agentTurnId)).toEqual([second.agentTurnId])
})

it('[T3.2e] one claim routes each row by its kind: results, timeouts and stops of suspended turns, and new turns', async () => {
  await t.agents('g1', 'g2', 'g3', 'g4')
  const resumed = await suspendedTurn(t, 'g1', grepCalls('g1-a', 'g1-b'))
  const timedOut = await suspendedTurn(t, 'g2', grepCalls('g2-a'))
  const stopped = await suspendedTurn(t, 'g3', grepCalls('g3-a'))
  await reportSuccess(t, 'g1-b')
  await reportSuccess(t, 'g1-a')
  await t.all(
    `select * from state.report(json_build_array(json_build_object('project_id', 'p', 'tool_call_id', 'g2-a', 'message_type', 'timeout',
      'status', 'timeout', 'inbox_id', $1::text, 'card_id', $2::text)))`,
    t.ids.next(),
    t.ids.next(),
  )
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, channel_id, message_type, status, agent_turn_id, turn_epoch)
     values ($1, $2, 'g3', 'public', 'stop', 'pending', $3, $4)`,
    t.ids.next(),
    project,
    stopped.agentTurnId,
    stopped.turnEpoch,
  )
  await enqueueTurn(t, 'g4')
  const batch = await t.claim()
  expect(batch.map((turn) => `${turn.agentId} ${turn.kind}`).toSorted()).toEqual(['g1 resume', 'g2 resume', 'g4 turn'])
  expect(batch.find((turn) => turn.agentId === 'g1')).toMatchObject({ agentTurnId: resumed.agentTurnId })
  expect(batch.find((turn) => turn.agentId === 'g2')).toMatchObject({ agentTurnId: timedOut.agentTurnId })
  expect(await headOf(t, 'g3')).toMatchObject({ status: 'idle' })
  expect((await eventsOf(t, stopped.agentTurnId, 'task')).map((event) => event.payload.status)).toEqual(['canceled'])
})
