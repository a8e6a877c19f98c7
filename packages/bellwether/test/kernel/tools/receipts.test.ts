import { expect, it } from 'vitest'
import { expireWaits } from '../../../src/kernel/verbs/watchdog/watchdog.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { fingerprint, headOf, inboxRow, type InboxRow, waitsOf } from '../../support/kernel-rows.js'
import { deliverTurn, fullWatchWindow, grepCalls, reportSuccess, suspendedTurn } from '../../support/kernel-turns.js'

const t = kernelPerFile()

const receiptsOf = (agentTurnId: string) =>
  t.all<InboxRow>(
    "select * from state.agent_inbox where agent_turn_id = $1 and message_type in ('tool_result', 'timeout') order by inbox_id",
    agentTurnId,
  )

it('[T3.4a] [T7.1] a receipt enters the inbox of its turn with the fields of the protocol', async () => {
  await t.agents('a')
  const turn = await suspendedTurn(t, 'a', grepCalls('a-1'))
  expect(await reportSuccess(t, 'a-1', { n: 1 })).toEqual(['reported'])
  const [receipt] = await receiptsOf(turn.agentTurnId)
  expect(receipt).toMatchObject({
    correlation_id: 'a-1',
    message_type: 'tool_result',
    status: 'pending',
    turn_epoch: turn.turnEpoch,
  })
  expect(receipt!.payload).toEqual({
    agent_turn_id: turn.agentTurnId,
    agent_id: 'a',
    turn_epoch: turn.turnEpoch,
    tool_call_id: 'a-1',
    status: 'success',
    after_execution: 'suspend',
    tool_result_card_id: expect.stringMatching(/^[0-9a-f-]{36}$/) as unknown,
  })
  expect(await t.kernel.readCard(receipt!.payload.tool_result_card_id as string)).toMatchObject({
    type: 'tool.result',
    content: { result: { n: 1 }, tool_call_id: 'a-1' },
  })
})

it('[T3.4a] a result for a call that no turn waits for is acknowledged and changes no row', async () => {
  await t.agents('b', 'c')
  const turn = await suspendedTurn(t, 'b', grepCalls('b-1'))
  const running = await t.running('c')
  const before = await fingerprint(t.db)
  expect(await reportSuccess(t, 'unknown-call')).toEqual(['unknown_tool_call'])
  const wrong = { projectId: project, toolCallId: 'b-1', status: 'success' as const }
  expect(await t.kernel.report([{ ...wrong, fence: { agentTurnId: running.agentTurnId, turnEpoch: 1 } }])).toEqual([
    'ignored',
  ])
  expect(await t.kernel.report([{ ...wrong, fence: { agentTurnId: turn.agentTurnId, turnEpoch: 2 } }])).toEqual([
    'ignored',
  ])
  expect(await t.kernel.report([{ ...wrong, projectId: 'other' }])).toEqual(['unknown_tool_call'])
  expect(await fingerprint(t.db)).toEqual(before)
})

it.each([
  ['a call of another turn', 'd-other', 1],
  ['an epoch that is not the head’s', 'd-1', 9],
])('[T3.4a] a receipt row for %s is skipped at the claim, and the turn keeps waiting', async (_title, call, epoch) => {
  const agent = `d${t.ids.next()}`
  await t.agents(agent)
  const turn = await suspendedTurn(t, agent, grepCalls(`${agent}-d-1`))
  const inboxId = t.ids.next()
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, channel_id, message_type, status, correlation_id, agent_turn_id, turn_epoch, payload)
     values ($1, $2, $3, 'public', 'tool_result', 'pending', $4, $5, $6, '{"tool_result_card_id": "x"}')`,
    inboxId,
    project,
    agent,
    `${agent}-${call}`,
    turn.agentTurnId,
    epoch,
  )
  expect(await t.claim()).toEqual([])
  expect(await inboxRow(t, inboxId)).toMatchObject({ status: 'skipped', error: 'not waited for' })
  expect(await headOf(t, agent)).toMatchObject({ status: 'suspended', waiting_tool_count: 1 })
})

it('[T3.4a] stop is accepted in any active state', async () => {
  await t.agents('e1', 'e2', 'e3')
  const dispatched = await t.kernel.enqueue({ projectId: project, agentId: 'e1', instruction: 'x' })
  expect(await t.kernel.stop({ projectId: project, agentTurnId: dispatched.agentTurnId })).toBe('ended')
  const running = await t.running('e2')
  const suspended = await suspendedTurn(t, 'e3', grepCalls('e3-1'))
  for (const turn of [running, suspended]) {
    await t.all(
      `insert into state.agent_inbox (inbox_id, project_id, agent_id, channel_id, message_type, status, agent_turn_id, turn_epoch)
       values ($1, $2, $3, 'public', 'stop', 'pending', $4, $5)`,
      t.ids.next(),
      project,
      turn.agentId,
      turn.agentTurnId,
      turn.turnEpoch,
    )
  }
  expect(await t.claim()).toEqual([])
  for (const agent of ['e1', 'e2', 'e3']) expect(await headOf(t, agent)).toMatchObject({ status: 'idle' })
})

it('[T3.4b] each receipt settles one wait and keeps the deadline; the last one gives the turn to a worker, and a running turn has no waits', async () => {
  await t.agents('f')
  const turn = await suspendedTurn(t, 'f', grepCalls('f-1', 'f-2', 'f-3'))
  const { resume_deadline: deadline } = await headOf(t, 'f')
  await reportSuccess(t, 'f-2')
  expect(await t.claim()).toEqual([])
  expect(await headOf(t, 'f')).toMatchObject({ status: 'suspended', waiting_tool_count: 2, resume_deadline: deadline })
  await reportSuccess(t, 'f-1')
  await reportSuccess(t, 'f-3')
  expect(await t.claim()).toMatchObject([{ kind: 'resume', agentTurnId: turn.agentTurnId }])
  expect(await t.claim()).toEqual([])
  expect(await t.kernel.resume(turn, 'w')).toBe('resumed')
  expect(await headOf(t, 'f')).toMatchObject({ status: 'running', waiting_tool_count: 0, resume_deadline: null })
  expect((await waitsOf(t, turn.agentTurnId)).map((wait) => wait.wait_status)).toEqual([
    'applied',
    'applied',
    'applied',
  ])
  expect(await t.kernel.resume(turn, 'w')).toBe('stale')
})

it('[T3.4b] [T2.4] the next receipt sets a cleared deadline again while waits remain', async () => {
  await t.agents('g')
  await suspendedTurn(t, 'g', grepCalls('g-1', 'g-2'))
  await t.all("update state.agent_state_head set resume_deadline = null where agent_id = 'g'")
  await reportSuccess(t, 'g-1')
  const { now } = await t.one<{ now: Date }>('select state.now() as now')
  await t.claim()
  const { resume_deadline: armed } = await headOf(t, 'g')
  expect(armed!.getTime() - now.getTime()).toBeGreaterThanOrEqual(30_000)
})

it('[T2.4] a suspended turn gets its timeout after its resume_deadline and not before', async () => {
  await t.agents('h')
  const turn = await suspendedTurn(t, 'h', grepCalls('h-1'))
  const others = () => t.all("update state.agent_state_head set resume_deadline = null where agent_id <> 'h'")
  await others()
  await t.advance(15)
  expect(await expireWaits(t.db, t.ids, target, fullWatchWindow)).toEqual([])
  await t.advance(16)
  expect(await expireWaits(t.db, t.ids, target, fullWatchWindow)).toMatchObject([
    { what: 'reported', agent_turn_id: turn.agentTurnId },
  ])
  expect(await t.claim()).toMatchObject([{ kind: 'resume', agentTurnId: turn.agentTurnId }])
})

it('[T8.2] results are applied once each, in any order and however often they are sent', async () => {
  await t.agents('i')
  const ids = ['i-1', 'i-2', 'i-3', 'i-4']
  const turn = await suspendedTurn(t, 'i', grepCalls(...ids))
  await Promise.all([...ids.toReversed(), ...ids, ...ids.toReversed()].map((id) => reportSuccess(t, id, id)))
  const resumes = []
  for (let round = 0; round < 3; round += 1) resumes.push(...(await t.claim()))
  expect(resumes).toHaveLength(1)
  expect(await t.kernel.resume(turn, 'w')).toBe('resumed')
  expect((await t.kernel.readResults(turn.agentTurnId)).map((one) => one.result)).toEqual(ids)
  expect(await receiptsOf(turn.agentTurnId)).toHaveLength(4)
  expect(await t.all('select from state.turn_resume_ledger where agent_turn_id = $1', turn.agentTurnId)).toHaveLength(4)
})

it('[T8.2] a result after its timeout, after the resume, or after the end is acknowledged and changes no row', async () => {
  await t.agents('j')
  const turn = await suspendedTurn(t, 'j', grepCalls('j-1', 'j-2'))
  await t.all("update state.agent_state_head set resume_deadline = null where agent_id <> 'j'")
  await reportSuccess(t, 'j-2')
  await t.advance(31)
  expect(await expireWaits(t.db, t.ids, target, fullWatchWindow)).toHaveLength(1)
  const still = async () => {
    const before = await fingerprint(t.db)
    expect(await reportSuccess(t, 'j-1', 'late')).toEqual(['ignored'])
    expect(await reportSuccess(t, 'j-2', 'again')).toEqual(['ignored'])
    expect(await fingerprint(t.db)).toEqual(before)
  }
  await still()
  await t.claim()
  await still()
  expect(await t.kernel.resume(turn, 'w')).toBe('resumed')
  expect((await waitsOf(t, turn.agentTurnId)).map((wait) => wait.wait_status)).toEqual(['expired', 'applied'])
  await still()
  expect(await deliverTurn(t, turn)).toEqual({ what: 'ended' })
  await still()
})
