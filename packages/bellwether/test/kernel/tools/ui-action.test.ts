/** A person's action on an agent: what it leases, what it refuses, and how a worker carries it out. */
import { expect, it } from 'vitest'
import type { AgentFunction } from '../../../src/worker/agent.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { edgesTo, fingerprint, headOf, turnRow, waitsOf } from '../../support/kernel-rows.js'
import { enqueueTurn, reportSuccess } from '../../support/kernel-turns.js'
import { carriedOut, carryOutAction } from '../../support/agents/ui-actions.js'
import { runTurns, testWorker } from '../../support/worker.js'

const t = kernelPerFile()

const action = { projectId: project, actionId: 'click-1', toolName: 'approve', args: { yes: true } }
const declare = (toolName = 'approve') => t.kernel.putTool({ projectId: project, toolName })
const never: AgentFunction = async () => {
  throw new Error('the executor ran')
}

it('[T3.1c] a ui_action leases first and its row is pending at once; only it may expect a correlation id', async () => {
  await t.agents('dan')
  await declare()
  t.rings()
  const { what, agentTurnId } = await t.kernel.uiAction({ ...action, agentId: 'dan' })
  expect(what).toBe('accepted')
  expect(await headOf(t, 'dan')).toMatchObject({
    status: 'dispatched',
    turn_epoch: 1,
    active_agent_turn_id: agentTurnId,
    expecting_correlation_id: 'click-1',
  })
  const row = await turnRow(t, agentTurnId!)
  expect(row).toMatchObject({ message_type: 'ui_action', status: 'pending', turn_epoch: 1 })
  expect(await edgesTo(t, agentTurnId!)).toMatchObject([{ primitive: 'enqueue', edge_phase: 'request' }])
  expect(t.rings()).toEqual([
    {
      subject: `bw.v1.${project}.public.cmd.agent.${target}.wakeup`,
      payload: { agent_id: 'dan', inbox_id: row.inbox_id },
    },
  ])
  // A worker can start it as it is: the row and the head have the same turn and epoch.
  expect(await t.claim()).toMatchObject([
    {
      kind: 'turn',
      messageType: 'ui_action',
      agentTurnId,
      turnEpoch: 1,
      correlationId: 'click-1',
      payload: { args: { yes: true } },
    },
  ])
  expect(await headOf(t, 'dan')).toMatchObject({ status: 'running', turn_epoch: 1 })
})

it('[T3.1c] an action on a busy agent returns busy, a repeated action returns duplicate, and neither writes anything', async () => {
  await t.agents('eve')
  await declare()
  const first = { ...action, agentId: 'eve' }
  const accepted = await t.kernel.uiAction(first)
  // Without an output box only its status shows that the agent is busy.
  await t.kernel.putAgents([{ projectId: project, agentId: 'bare', workerTarget: target, outputBox: false }])
  await t.running('bare')
  const before = await fingerprint(t.db)
  t.rings()
  expect(await t.kernel.uiAction({ ...first, actionId: 'b' })).toMatchObject({ what: 'busy' })
  expect(await t.kernel.uiAction({ ...first, agentId: 'bare', actionId: 'c' })).toMatchObject({ what: 'busy' })
  expect(await t.kernel.uiAction(first)).toMatchObject({ what: 'duplicate', agentTurnId: accepted.agentTurnId })
  expect(await t.kernel.uiAction({ ...first, agentId: 'ghost' })).toMatchObject({
    what: 'rejected',
    reason: 'unknown_agent',
  })
  expect(await fingerprint(t.db)).toEqual(before)
  expect(t.rings()).toEqual([])
})

it('[T3.1e] an unknown tool is rejected before anything is leased or written', async () => {
  await t.agents('fin')
  const before = await fingerprint(t.db)
  t.rings()
  expect(await t.kernel.uiAction({ ...action, agentId: 'fin', toolName: 'unheard-of' })).toEqual({
    what: 'rejected',
    agentTurnId: null,
    reason: 'unknown_tool',
  })
  expect(await fingerprint(t.db)).toEqual(before)
  expect(t.rings()).toEqual([])
})

it('[T3.1e] an action id that was used with another tool, other arguments or for a turn is a conflict and writes nothing', async () => {
  await t.agents('gil', 'gus')
  await declare()
  await declare('reject')
  const first = { ...action, agentId: 'gil', args: { a: 1, b: [2] } }
  await t.kernel.uiAction(first)
  await enqueueTurn(t, 'gus', { correlationId: 'click-1' })
  const before = await fingerprint(t.db)
  for (const other of [{ toolName: 'reject' }, { toolName: 'unheard-of' }, { args: { a: 1 } }, { agentId: 'gus' }])
    expect(await t.kernel.uiAction({ ...first, ...other })).toMatchObject({ what: 'conflict' })
  // The order of the keys does not matter.
  expect(await t.kernel.uiAction({ ...first, args: { b: [2], a: 1 } })).toMatchObject({ what: 'duplicate' })
  expect(await fingerprint(t.db)).toEqual(before)
})

it('[T3.1e] the turn of an action calls the tool, suspends, and delivers its result; a function agent does not run', async () => {
  await t.agents('hal')
  const worker = testWorker(t, () => never)
  expect(await carryOutAction(t, 'hal', () => runTurns(worker))).toMatchObject(carriedOut)
  expect(await headOf(t, 'hal')).toMatchObject({ status: 'idle', active_agent_turn_id: null })
})

it('[T3.1e] the result of an action is its deliverable, even if the tool asks to continue, and a failed result fails the turn', async () => {
  await t.agents('ida', 'ivo')
  await declare()
  const worker = testWorker(t, () => never)
  const run = async (agentId: string, result: object) => {
    const { agentTurnId } = await t.kernel.uiAction({ ...action, agentId })
    await runTurns(worker)
    const [wait] = await waitsOf(t, agentTurnId!)
    await t.kernel.report([{ projectId: project, toolCallId: wait!.tool_call_id, status: 'success', ...result }])
    await runTurns(worker)
    const row = await turnRow(t, agentTurnId!)
    return { ...row, card: await t.kernel.readCard(row.deliverable_card_id!) }
  }
  expect(await run('ida', { result: { __cg_control: { after_execution: 'suspend' }, ok: 1 } })).toMatchObject({
    outcome: 'success',
    card: { content: { text: expect.stringContaining('"ok":1') } },
  })
  const error = { code: 'too_late', message: 'the order was sent' }
  expect(await run('ivo', { status: 'failed', error })).toMatchObject({ outcome: 'failed', error: 'too_late' })
})

it('[T3.1e] a worker that takes an action over calls the tool once', async () => {
  await t.agents('jan')
  await declare()
  const { agentTurnId } = await t.kernel.uiAction({ ...action, agentId: 'jan' })
  // The first worker dies before it suspends the turn.
  const [lost] = await t.claim()
  await t.kernel.handBack([lost!], 'worker-1')
  const worker = testWorker(t, () => never)
  await runTurns(worker)
  const [wait] = await waitsOf(t, agentTurnId!)
  expect(
    await t.kernel.suspend({ ...lost!, stepId: 's', calls: [{ toolCallId: 'x', toolName: 'approve', args: {} }] }, 30),
  ).toBe('stale')
  await reportSuccess(t, wait!.tool_call_id, 'approved')
  await runTurns(worker)
  expect(await turnRow(t, agentTurnId!)).toMatchObject({ outcome: 'success' })
  expect(await waitsOf(t, agentTurnId!)).toHaveLength(1)
})
