import { expect, it } from 'vitest'
import { readEvents, beginning } from '../../../src/kernel/verbs/events.js'
import { suspend } from '../../../src/kernel/verbs/turn/suspend.js'
import { openDatabase } from '../../../src/ports/database/pool.js'
import { kernelPerFile, project } from '../../support/kernel.js'
import { cardsIn, eventsOf, headOf, turnRow, waitsOf } from '../../support/kernel-rows.js'
import { enqueueTurn, grepCalls, reportSuccess, suspendedTurn } from '../../support/kernel-turns.js'
import { runTurns, testWorker } from '../../support/worker.js'

const t = kernelPerFile()

/** A worker whose agents are one function; `steps` counts how often it was called. */
function workerOf(act: (results: readonly unknown[], toolCallId: string) => object) {
  const counted = { steps: 0 }
  const worker = testWorker(t, () => async (context) => {
    counted.steps += 1
    return act(context.results, context.newId()) as { deliver: { text: string } }
  })
  return { counted, step: () => runTurns(worker) }
}

it('[T3.3a] a tool command is never visible before its tool.call card: they are one transaction', async () => {
  await t.agents('a')
  const turn = await t.running('a')
  const other = await openDatabase({ url: t.url, poolSize: 1 })
  const cards = () => other.query({ text: "select from cards.cards where type = 'tool.call'" })
  const commands = async () => (await readEvents(other, beginning, 100)).filter((event) => event.kind === 'command')
  await t.db.transaction(async (tx) => {
    expect(await suspend(tx, t.ids, { ...turn, stepId: 's', calls: grepCalls('a-1') }, 30)).toBe('suspended')
    expect([await cards(), await commands()]).toEqual([[], []])
  })
  expect(await cards()).toHaveLength(1)
  const [command] = await commands()
  expect(await t.kernel.readCard(command!.payload.tool_call_card_id as string)).toMatchObject({
    type: 'tool.call',
    content: { tool_call_id: 'a-1', tool_name: 'grep', arguments: { id: 'a-1' } },
  })
  await other.close()
})

it('[T3.3a] [T7.1] commands go to cmd.tool.* or to the tool’s subject, with pointers and never the arguments', async () => {
  await t.agents('b')
  await t.kernel.putTool({ projectId: project, toolName: 'delegate', targetSubject: 'cmd.sys.pmo.internal.delegate' })
  const turn = await suspendedTurn(t, 'b', [
    ...grepCalls('b-1'),
    { toolCallId: 'b-2', toolName: 'delegate', args: { secret: 'x' } },
  ])
  const commands = await eventsOf(t, turn.agentTurnId, 'command')
  expect(commands.map((one) => one.subject)).toEqual([
    `bw.v1.${project}.public.cmd.tool.grep.call`,
    `bw.v1.${project}.public.cmd.sys.pmo.internal.delegate`,
  ])
  for (const { payload } of commands) {
    expect(Object.keys(payload).toSorted()).toEqual([
      'after_execution',
      'agent_id',
      'agent_turn_id',
      'step_id',
      'tool_call_card_id',
      'tool_call_id',
      'tool_name',
      'traceparent',
      'turn_epoch',
    ])
  }
  expect(JSON.stringify(commands)).not.toContain('secret')
})

it('[T3.3b] [T2.4] a suspend writes status, count, deadline and one wait per call in one transaction', async () => {
  await t.agents('c')
  const turn = await t.running('c')
  const before = await t.one<{ now: Date }>('select state.now() as now')
  await t.kernel.suspend({ ...turn, stepId: 'step-c', calls: grepCalls('c-1', 'c-2', 'c-3') }, 30)
  const head = await headOf(t, 'c')
  expect(head).toMatchObject({ status: 'suspended', waiting_tool_count: 3 })
  const seconds = (head.resume_deadline!.getTime() - before.now.getTime()) / 1_000
  expect(seconds).toBeGreaterThanOrEqual(30)
  expect(seconds).toBeLessThan(40)
  expect(await waitsOf(t, turn.agentTurnId)).toMatchObject(
    ['c-1', 'c-2', 'c-3'].map((id) => ({ tool_call_id: id, step_id: 'step-c', wait_status: 'waiting' })),
  )
})

it('[T2.2] waits describe a suspended turn: expecting_correlation_id stays null on the worker path, also after a ui_action', async () => {
  await t.agents('d', 'e')
  await suspendedTurn(t, 'd', grepCalls('d-1'))
  expect(await headOf(t, 'd')).toMatchObject({ waiting_tool_count: 1, expecting_correlation_id: null })
  await t.kernel.putTool({ projectId: project, toolName: 'x' })
  await t.kernel.uiAction({ projectId: project, agentId: 'e', actionId: 'click', toolName: 'x', args: {} })
  const [turn] = await t.claim()
  await t.kernel.suspend({ ...turn!, stepId: 's', calls: grepCalls('e-1', 'e-2') }, 30)
  expect(await headOf(t, 'e')).toMatchObject({ waiting_tool_count: 2, expecting_correlation_id: null })
})

it('[T3.3c] a terminating call waits for the result, delivers it and ends the turn without another step of the agent', async () => {
  await t.agents('f')
  const { agentTurnId } = await enqueueTurn(t, 'f')
  const { counted, step } = workerOf((_, id) => ({
    suspend: { calls: [{ toolCallId: `f${id}`, toolName: 'post', args: {}, afterExecution: 'terminate' }] },
  }))
  await step()
  expect(await headOf(t, 'f')).toMatchObject({ status: 'suspended', waiting_tool_count: 1 })
  const [wait] = await waitsOf(t, agentTurnId)
  await reportSuccess(t, wait!.tool_call_id, 'posted as 17')
  await step()
  expect(await headOf(t, 'f')).toMatchObject({ status: 'idle' })
  expect(counted.steps).toBe(1)
  const row = await turnRow(t, agentTurnId)
  expect(row.outcome).toBe('success')
  expect(await t.kernel.readCard(row.deliverable_card_id!)).toMatchObject({ content: { text: 'posted as 17' } })
})

it.each([
  [
    'terminate in the result ends a call that was declared suspend',
    'suspend',
    { __cg_control: { after_execution: 'terminate' } },
    'terminate',
  ],
  [
    'suspend in the result goes on with a call that was declared terminate',
    'terminate',
    { __cg_control: { after_execution: 'suspend' } },
    'suspend',
  ],
  ['an invalid value is ignored', 'suspend', { __cg_control: { after_execution: 'explode' } }, 'suspend'],
  ['a value of the wrong type is ignored', 'terminate', { __cg_control: { after_execution: { x: 1 } } }, 'terminate'],
  ['control that is not an object is ignored', 'terminate', { __cg_control: 'suspend' }, 'terminate'],
  [
    'the words elsewhere in the result are only words',
    'suspend',
    { text: '__cg_control', after_execution: 'terminate' },
    'suspend',
  ],
] as const)('[T3.3d] %s', async (_title, declared, result, effective) => {
  const agent = `g${t.ids.next()}`
  await t.agents(agent)
  await suspendedTurn(t, agent, [{ toolCallId: agent, toolName: 'grep', args: {}, afterExecution: declared }])
  await reportSuccess(t, agent, result)
  const [turn] = await t.claim()
  expect(await t.kernel.readResults(turn!.agentTurnId)).toMatchObject([{ after_execution: effective }])
  await t.kernel.stop({ projectId: project, agentTurnId: turn!.agentTurnId })
})

it('[T3.3d] control words in arguments and cards do not change after_execution', async () => {
  await t.agents('h')
  const words = { __cg_control: { after_execution: 'terminate' } }
  const turn = await t.running('h')
  await t.kernel.record({
    ...turn,
    cards: [
      { type: 'agent.thought', content: { result: words, ...words } },
      { type: 'tool.result', content: { tool_call_id: 'h-1', result: words } },
    ],
  })
  await t.kernel.suspend(
    { ...turn, stepId: 's', calls: [{ toolCallId: 'h-1', toolName: 'grep', args: { ...words, result: words } }] },
    30,
  )
  expect(await waitsOf(t, turn.agentTurnId)).toMatchObject([{ after_execution: 'suspend' }])
  await reportSuccess(t, 'h-1', 'plain')
  await t.claim()
  expect(await t.kernel.readResults(turn.agentTurnId)).toMatchObject([{ after_execution: 'suspend', result: 'plain' }])
})

it('[T3.3c] the roster applies where a call sets nothing, and the result is in the output box before the agent continues', async () => {
  await t.agents('i')
  await t.kernel.putTool({ projectId: project, toolName: 'publish', afterExecution: 'terminate' })
  const turn = await suspendedTurn(t, 'i', [{ toolCallId: 'i-1', toolName: 'publish', args: {} }])
  expect(await waitsOf(t, turn.agentTurnId)).toMatchObject([{ after_execution: 'terminate' }])
  await reportSuccess(t, 'i-1')
  await t.claim()
  expect((await cardsIn(t, turn.outputBoxId)).map((card) => card.type)).toEqual(['tool.call', 'tool.result'])
})
