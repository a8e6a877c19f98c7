/** The tools that the PMO hosts: what may be declared, how calls reach their handlers, and what a crash leaves. */
import { once } from 'node:events'
import { systemClock } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { openKernel } from '../../../src/kernel/kernel.js'
import { pmoTools } from '../../../src/kernel/pmo-tools.js'
import type { ClaimedTurn } from '../../../src/kernel/verbs/turn/claim.js'
import { openHostedTools, runHostedTools } from '../../../src/pmo/hosted-tools.js'
import { openRelay } from '../../../src/pmo/relay.js'
import { notifyBell } from '../../../src/ports/bell/notify.js'
import { notifyStream } from '../../../src/ports/stream/notify.js'
import { pmoHandlers } from '../../../src/runtime/parts/pmo-tools.js'
import { batchOf, join } from '../../support/forks.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { fingerprint, headOf, turnRow } from '../../support/kernel-rows.js'
import { deliverTurn, suspendedTurn } from '../../support/kernel-turns.js'
import { quietLog } from '../../support/quiet-log.js'
import { silentBell } from '../../support/silent-bell.js'
import { until } from '../../support/until.js'
import { batchIdOfCall } from '../../../src/kernel/verbs/batches/fork.js'
import { runTurns, testWorker } from '../../support/worker.js'

const t = kernelPerFile()

const declare = (toolName: string, tool: string) =>
  t.kernel.putTool({ projectId: project, toolName, targetSubject: `cmd.sys.pmo.internal.${tool}` })
const hosted = (kernel = t.kernel) => openHostedTools({ kernel, handlers: pmoHandlers(kernel) })
/** The results of the turn's calls, once they are claimed. */
async function resultsOf(turn: ClaimedTurn) {
  await t.claim()
  return t.kernel.readResults(turn.agentTurnId)
}
/** The child turn of a call's batch runs and delivers. */
async function finishChild(toolCallId: string, text: string): Promise<void> {
  const { tasks } = await batchOf(t, batchIdOfCall(project, toolCallId))
  const child = (await t.claim()).find((one) => one.agentTurnId === tasks[0]!.agent_turn_id)
  await deliverTurn(t, child!, text)
  await join(t, 2)
}

it('[T3.3e] a tool with a subject of the PMO that has no handler is refused when it is declared', async () => {
  const before = await fingerprint(t.db)
  for (const subject of [
    'cmd.sys.pmo.internal.launch',
    'cmd.sys.pmo.internal',
    'cmd.sys.pmo.internal.delegate.x',
    'cmd.sys.other',
  ])
    await expect(
      t.kernel.putTool({ projectId: project, toolName: 'launch', targetSubject: subject }),
    ).rejects.toMatchObject({
      code: 'unknown_pmo_tool',
      message: expect.stringContaining(`nothing answers calls to "${subject}"`),
      hint: expect.stringContaining(pmoTools.join(', ')),
    })
  expect(await fingerprint(t.db)).toEqual(before)
  for (const tool of pmoTools) await declare(`my-${tool}`, tool)
})

it('[T3.3e] the PMO answers a call of a declared delegate with the result of the agent, and its wait lasts as long as the batch', async () => {
  await t.agents('boss', 'clerk')
  await declare('hand-over', 'delegate')
  const args = { agent: 'clerk', instruction: 'add 2 and 3', deadline_seconds: 600 }
  const turn = await suspendedTurn(t, 'boss', [{ toolCallId: 'd-1', toolName: 'hand-over', args }])
  const { now } = await t.one<{ now: Date }>('select state.now() as now')
  expect(await hosted().step()).toBe(1)
  expect(await hosted().step()).toBe(0)
  expect((await headOf(t, 'boss')).resume_deadline!.getTime() - now.getTime()).toBeGreaterThan(600_000)
  await finishChild('d-1', 'five')
  expect(await resultsOf(turn)).toMatchObject([
    {
      tool_name: 'hand-over',
      status: 'success',
      result: { tasks: [{ status: 'success', content: { text: 'five' } }] },
    },
  ])
})

it('[T3.3e] delegate and fork_join need no declaration: an action of a person delegates, and delivers the results', async () => {
  await t.agents('desk', 'aide')
  const tasks = [{ agent: 'aide', instruction: 'look', target_strategy: 'reuse' }]
  const { agentTurnId } = await t.kernel.uiAction({
    projectId: project,
    agentId: 'desk',
    actionId: 'a',
    toolName: 'fork_join',
    args: { tasks },
  })
  const worker = testWorker(t, () => async ({ turn }) => ({ deliver: { text: `done by ${turn.agentId}` } }))
  await runTurns(worker)
  expect(await hosted().step()).toBe(1)
  await runTurns(worker)
  await join(t, 2)
  await runTurns(worker)
  const row = await turnRow(t, agentTurnId!)
  expect(row).toMatchObject({ message_type: 'ui_action', outcome: 'success' })
  expect(await t.kernel.readCard(row.deliverable_card_id!)).toMatchObject({
    content: { text: expect.stringContaining('done by aide') },
  })
})

it('[T3.3e] list_agents answers at once, and invalid arguments fail the call with the reason', async () => {
  await t.agents('asker')
  await declare('who', 'list_agents')
  const turn = await suspendedTurn(t, 'asker', [
    { toolCallId: 'l-1', toolName: 'who', args: {} },
    { toolCallId: 'l-2', toolName: 'delegate', args: { agent: 'clerk' } },
    { toolCallId: 'l-3', toolName: 'delegate', args: { agent: 'asker', instruction: 'x' } },
  ])
  expect(await hosted().step()).toBe(3)
  expect(await resultsOf(turn)).toMatchObject([
    { status: 'success', result: expect.arrayContaining([expect.objectContaining({ agent_id: 'asker' })]) },
    { status: 'failed', error: { code: 'invalid_arguments', message: expect.stringContaining('instruction') } },
    { status: 'failed', error: { code: 'invalid_task' } },
  ])
})

it('[T3.3e] two PMOs fork one batch, and the tasks of a PMO that died after it took the call are dispatched by another', async () => {
  await t.agents('twice', 'helper')
  const args = { agent: 'helper', instruction: 'x' }
  const turn = await suspendedTurn(t, 'twice', [{ toolCallId: 't-1', toolName: 'delegate', args }])
  const dying = openKernel({
    // The process ends after the commit: the tasks are not dispatched.
    db: {
      ...t.db,
      query: (s) => (s.name === 'bw_dispatch_tasks' ? Promise.reject(new Error('killed')) : t.db.query(s)),
    },
    bell: silentBell,
    ids: t.ids,
  })
  const [first, second] = await Promise.allSettled([hosted(dying).step(), hosted(dying).step()])
  expect([first.status, second.status]).toContain('rejected')
  expect(await t.all("select from state.batches where tool_call_id = 't-1'")).toHaveLength(1)
  expect(await hosted().step()).toBe(0)
  await t.advance(3)
  await join(t)
  await finishChild('t-1', 'helped')
  expect(await resultsOf(turn)).toMatchObject([{ status: 'success' }])
})

it('[T3.3a] the PMO receives a published command after its card is visible, and answers it without a poll', async () => {
  const bell = notifyBell({ url: t.url, log: quietLog })
  const stop = new AbortController()
  const seen: unknown[] = []
  const handlers = pmoHandlers(t.kernel)
  // Its sleep ends only with the test: nothing but the bell wakes it.
  const sleep = async (_ms: number, signal?: AbortSignal) => {
    if (signal?.aborted === false) await once(signal, 'abort')
  }
  const running = runHostedTools({
    kernel: t.kernel,
    bell,
    clock: { ...systemClock, sleep },
    log: quietLog,
    signal: stop.signal,
    handlers: { ...handlers, delegate: async (call) => (seen.push(call.args), handlers.delegate(call)) },
  })
  onTestFinished(async () => {
    stop.abort()
    await running
    await bell.close()
  })
  await t.agents('ringer', 'rung')
  await declare('hand-over', 'delegate')
  const args = { agent: 'rung', instruction: 'x' }
  await suspendedTurn(t, 'ringer', [{ toolCallId: 'r-1', toolName: 'hand-over', args }])
  const relay = openRelay({ db: t.db, stream: notifyStream({ bell }), log: quietLog })
  await until('the PMO has taken the call', async () => {
    await relay.step()
    return (await t.kernel.readBatch(project, batchIdOfCall(project, 'r-1'))) ?? undefined
  })
  expect(seen).toEqual([args])
  expect(await headOf(t, 'ringer')).toMatchObject({ status: 'suspended', worker_target: target })
})
