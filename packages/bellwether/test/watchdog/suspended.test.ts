/** W2.2: a turn that waits too long for a tool gets a timeout receipt; only the PMO ends a turn that nothing can resume. */
import { expect, it } from 'vitest'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { eventsOf, headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { guardOn, interventionsOf, pass, tasksOf, workerOn } from '../support/watchdog.js'

const t = kernelPerFile()

interface Report {
  readonly correlation_id: string
  readonly message_type: string
  readonly status: string
  readonly payload: {
    readonly status: string
    readonly tool_result_card_id: string
    readonly error: { readonly code: string }
  }
}
const reports = (turn: string) =>
  t.all<Report>(
    `select correlation_id, message_type, status, payload from state.agent_inbox
     where agent_turn_id = $1 and message_type in ('tool_result', 'timeout') order by correlation_id`,
    turn,
  )
const waits = async (turn: string) =>
  Object.fromEntries(
    (
      await t.all<{ tool_call_id: string; wait_status: string }>(
        'select tool_call_id, wait_status from state.turn_waiting_tools where agent_turn_id = $1',
        turn,
      )
    ).map((row) => [row.tool_call_id, row.wait_status]),
  )
const noCard = (toolCallId: string) =>
  t.all(
    `delete from cards.cards where card_id = (select tool_call_card_id from state.turn_waiting_tools where tool_call_id = $1)`,
    toolCallId,
  )

it('[W2.2a] [W2.2b] [W2.2c] reports one timeout for each wait, rings, clears the deadline and ends nothing', async () => {
  await t.agents('ann')
  const turn = await suspendedTurn(t, 'ann', grepCalls('a1', 'a2'))
  const watcher = workerOn(t)
  await pass(t, 25, watcher)
  expect(await reports(turn.agentTurnId)).toEqual([])
  const before = await headOf(t, 'ann')
  t.rings()
  await pass(t, 20, watcher)

  const found = await reports(turn.agentTurnId)
  expect(found).toMatchObject(
    ['a1', 'a2'].map((id) => ({
      correlation_id: id,
      message_type: 'timeout',
      status: 'pending',
      payload: { status: 'timeout', error: { code: 'tool_timeout' }, tool_call_id: id, turn_epoch: turn.turnEpoch },
    })),
  )
  expect(await t.kernel.readCard(found[0]!.payload.tool_result_card_id)).toMatchObject({
    type: 'tool.result',
    content: { tool_call_id: 'a1', status: 'timeout', error: { code: 'tool_timeout' } },
  })
  const edges = await t.all(
    `select 1 as one from state.execution_edges where target_agent_turn_id = $1 and primitive = 'report'`,
    turn.agentTurnId,
  )
  expect(edges).toHaveLength(2)
  expect(t.rings().map((ring) => ring.subject)).toContain(`bw.v1.${project}.public.cmd.agent.${target}.wakeup`)
  expect(await headOf(t, 'ann')).toEqual({ ...before, resume_deadline: null })
  expect(await waits(turn.agentTurnId)).toEqual({ a1: 'waiting', a2: 'waiting' })
  expect(await tasksOf(t, turn.agentTurnId)).toEqual([])
  expect(await interventionsOf(t, turn.agentTurnId)).toMatchObject([
    {
      kind: 'tool_timeout',
      before: { status: 'suspended', waiting_tool_count: 2 },
      after: { status: 'suspended', resume_deadline: null },
    },
  ])

  // The turn resumes normally, and a late result changes nothing.
  expect(await reportSuccess(t, 'a1')).toEqual(['ignored'])
  const [again] = await t.claim()
  expect(again).toMatchObject({ kind: 'resume', agentTurnId: turn.agentTurnId })
  expect((await t.kernel.readResults(turn.agentTurnId)).map((one) => one.error?.code)).toEqual([
    'tool_timeout',
    'tool_timeout',
  ])
  expect(await t.kernel.resume(again!, 'worker-1')).toBe('resumed')
  expect(await t.kernel.deliver({ ...turn, status: 'failed', error: 'no tools', content: { text: 'sorry' } })).toEqual({
    what: 'ended',
  })
})

it('[W2.2a] writes timeouts only for open waits: an answered call keeps its answer', async () => {
  await t.agents('bea')
  const turn = await suspendedTurn(t, 'bea', grepCalls('b1', 'b2', 'b3'))
  await reportSuccess(t, 'b1', { n: 1 })
  await t.claim()
  await reportSuccess(t, 'b2', { n: 2 })
  await pass(t, 40, workerOn(t))
  expect(await reports(turn.agentTurnId)).toMatchObject([
    { correlation_id: 'b1', message_type: 'tool_result' },
    { correlation_id: 'b2', message_type: 'tool_result' },
    { correlation_id: 'b3', message_type: 'timeout' },
  ])
  expect((await t.claim()).map((one) => one.kind)).toEqual(['resume'])
  const results = await t.kernel.readResults(turn.agentTurnId)
  expect(results.map((one) => [one.status, one.result])).toEqual([
    ['success', { n: 1 }],
    ['success', { n: 2 }],
    ['timeout', null],
  ])
})

it('[W2.2c] [W2.2d] [W2.2f] skips a wait without its card, sets the deadline again, and the PMO ends the turn if nothing can resume it', async () => {
  await t.agents('cat')
  const turn = await suspendedTurn(t, 'cat', grepCalls('c1', 'c2'))
  await noCard('c2')
  const watcher = workerOn(t)
  const guard = guardOn(t)
  await pass(t, 35, watcher, guard)
  expect(await reports(turn.agentTurnId)).toMatchObject([{ correlation_id: 'c1', message_type: 'timeout' }])
  expect((await headOf(t, 'cat')).resume_deadline).toBeNull()
  expect((await t.claim()).map((one) => one.agentTurnId)).toEqual([])
  expect(await waits(turn.agentTurnId)).toEqual({ c1: 'expired', c2: 'waiting' })
  expect(await headOf(t, 'cat')).toMatchObject({
    status: 'suspended',
    waiting_tool_count: 1,
    resume_deadline: expect.any(Date) as Date,
  })
  // A result would still be accepted now, and also after the second deadline.
  await pass(t, 40, watcher, guard)
  expect(await reports(turn.agentTurnId)).toHaveLength(1)
  expect((await headOf(t, 'cat')).resume_deadline).toBeNull()
  await pass(t, 250, watcher, guard)
  expect((await headOf(t, 'cat')).status).toBe('suspended')
  await pass(t, 20, watcher, guard)
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({
    outcome: 'failed',
    error: 'suspended_unresumable',
    turn_epoch: turn.turnEpoch + 1,
  })
  expect(await tasksOf(t, turn.agentTurnId)).toMatchObject([{ status: 'failed', error: 'suspended_unresumable' }])
  expect((await interventionsOf(t, turn.agentTurnId)).at(-1)).toMatchObject({
    kind: 'reap',
    before: { status: 'suspended' },
  })
  expect(await reportSuccess(t, 'c2')).toEqual(['ignored'])
})

it('[W2.2d] [W2.2f] accepts an answer for a skipped wait while the turn is suspended', async () => {
  await t.agents('dan')
  const turn = await suspendedTurn(t, 'dan', grepCalls('d1'))
  await noCard('d1')
  await pass(t, 200, workerOn(t), guardOn(t))
  expect(await reportSuccess(t, 'd1')).toEqual(['reported'])
  expect(await t.claim()).toMatchObject([{ kind: 'resume', agentTurnId: turn.agentTurnId }])
  expect(await t.kernel.resume(turn, 'worker-1')).toBe('resumed')
})

it('[W2.2f] does not end a turn whose deadline is ahead, nor one whose receipts wait in a busy fleet’s queue', async () => {
  await t.agents('eve', 'fay')
  await t.kernel.putTool({ projectId: project, toolName: 'slow', options: { timeout_seconds: 900 } })
  const turn = await t.running('eve')
  await t.kernel.suspend({ ...turn, stepId: 'e', calls: [{ toolCallId: 'e1', toolName: 'slow', args: {} }] }, 30)
  await suspendedTurn(t, 'fay', grepCalls('f1'))
  await reportSuccess(t, 'f1')
  await t.all(`update state.agent_inbox set worker_target = 'elsewhere' where correlation_id = 'f1'`)
  await t.all(`select state.sign_in('busy', $1, 1)`, target)
  const busy = { step: () => t.all(`update state.workers set last_claim_at = state.now() where worker_id = 'busy'`) }
  const guard = guardOn(t)
  await pass(t, 600, guard, busy)
  expect((await headOf(t, 'eve')).status).toBe('suspended')
  expect((await headOf(t, 'fay')).status).toBe('suspended')
  // The fleet is dead: after one more timeout the turn ends, although an unclaimed receipt exists.
  await pass(t, 310, guard)
  expect((await headOf(t, 'fay')).status).toBe('idle')
  expect((await headOf(t, 'eve')).status).toBe('suspended')
})

const options: readonly (readonly [string, Readonly<Record<string, unknown>>, number])[] = [
  ['no options', {}, 30],
  ['a longer suspend_timeout_seconds', { suspend_timeout_seconds: 90 }, 90],
  ['a longer timeout_seconds', { timeout_seconds: 75.5 }, 75.5],
  ['the longer of the two', { suspend_timeout_seconds: 40, timeout_seconds: 50 }, 50],
  ['a shorter one, which counts for nothing', { suspend_timeout_seconds: 1, timeout_seconds: 2 }, 30],
  ['a negative number and zero', { suspend_timeout_seconds: -5, timeout_seconds: 0 }, 30],
  ['words, lists and null', { suspend_timeout_seconds: 'soon', timeout_seconds: [900] }, 30],
  ['a number in quotes', { suspend_timeout_seconds: '900', timeout_seconds: null }, 30],
  ['more than a year', { suspend_timeout_seconds: 1e12, timeout_seconds: 60 }, 60],
]
it('[W2.2e] waits for the longest of the setting and the options of every call, and ignores invalid options', async () => {
  for (const [position, [name, given, seconds]] of options.entries()) {
    await t.agents(`opt-${position}`)
    await t.kernel.putTool({ projectId: project, toolName: `opt-${position}`, options: given })
    const turn = await t.running(`opt-${position}`)
    const calls = ['plain', `opt-${position}`].map((toolName, index) => ({
      toolCallId: `o-${position}-${index}`,
      toolName,
      args: {},
    }))
    await t.kernel.suspend({ ...turn, stepId: `o-${position}`, calls }, 30)
    const { waited } = await t.one<{ waited: number }>(
      'select extract(epoch from resume_deadline - updated_at)::float8 as waited from state.agent_state_head where agent_id = $1',
      `opt-${position}`,
    )
    expect([name, waited]).toEqual([name, seconds])
    await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
  }
})

it('[W2.2b] the worker’s watchdog emits no task event, whatever it does', async () => {
  await t.agents('gus', 'hal', 'ivy')
  const turns = [
    await t.running('gus'),
    await suspendedTurn(t, 'hal', grepCalls('h1')),
    await suspendedTurn(t, 'ivy', grepCalls('i1')),
  ]
  await reportSuccess(t, 'i1')
  await t.claim()
  await pass(t, 500, workerOn(t))
  for (const turn of turns) {
    expect((await interventionsOf(t, turn.agentTurnId)).length).toBeGreaterThanOrEqual(turn === turns[2] ? 0 : 1)
    expect((await eventsOf(t, turn.agentTurnId)).filter((event) => event.kind === 'task')).toEqual([])
    expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ outcome: null })
  }
})
