/** W2.3: if a worker dies between a receipt and the resume, nothing is lost and nothing is applied twice. */
import { expect, it } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { AgentFunction } from '../../src/worker/agent.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { eventsOf, headOf, turnRow } from '../support/kernel-rows.js'
import { grepCalls, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { interventionsOf, pass, tasksOf, workerOn } from '../support/watchdog.js'
import { turnsDone } from '../support/worker.js'

const t = kernelPerFile()

const ledger = (turn: string) =>
  t.all<{ status: string; tries: number }>(
    'select status, tries from state.turn_resume_ledger where agent_turn_id = $1 order by tool_call_id',
    turn,
  )
const resultCards = async (boxId: string | null) =>
  (await t.kernel.readBoxes([boxId])).filter((card) => card.type === 'tool.result').map((card) => card.content)

/** An agent that delivers its results and records its calls. */
function counting() {
  const calls: unknown[] = []
  const agent: AgentFunction = async ({ results }) => {
    calls.push(results.map((one) => one.result))
    if (results.length === 0)
      return { suspend: { calls: [{ toolCallId: `again-${calls.length}`, toolName: 'grep', args: {} }] } }
    return { deliver: { text: JSON.stringify(results.map((one) => one.result)) } }
  }
  return { calls, agent }
}

it('[W2.3a] returns an expired resume lease to pending, and keeps a valid one', async () => {
  await t.agents('lease')
  const turn = await suspendedTurn(t, 'lease', grepCalls('l1', 'l2'))
  await reportSuccess(t, 'l1')
  await reportSuccess(t, 'l2')
  expect(await t.claim()).toMatchObject([{ kind: 'resume' }])
  expect(await ledger(turn.agentTurnId)).toEqual([
    { status: 'processing', tries: 1 },
    { status: 'processing', tries: 1 },
  ])
  const watcher = workerOn(t)
  await pass(t, 25, watcher)
  expect((await ledger(turn.agentTurnId)).map((row) => row.status)).toEqual(['processing', 'processing'])
  await pass(t, 10, watcher)
  expect((await ledger(turn.agentTurnId)).map((row) => row.status)).toEqual(['pending', 'pending'])
  expect((await headOf(t, 'lease')).status).toBe('suspended')
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
})

it('[W2.3b] gives the results to another worker once if a worker is killed between receipt and resume', async () => {
  await t.agents('dead-1')
  const turn = await suspendedTurn(t, 'dead-1', grepCalls('r1', 'r2'))
  await reportSuccess(t, 'r1', { n: 1 })
  await reportSuccess(t, 'r2', { n: 2 })
  expect(await t.claim()).toMatchObject([{ kind: 'resume', agentTurnId: turn.agentTurnId }])
  const { calls, agent } = counting()
  const alive = workerOn(t, { workerId: 'alive', agent })
  await pass(t, 25, alive)
  expect(calls).toEqual([])
  await pass(t, 30, alive)
  await turnsDone(alive.worker)
  expect(calls).toEqual([[{ n: 1 }, { n: 2 }]])
  expect(await resultCards(turn.outputBoxId)).toMatchObject([{ tool_call_id: 'r1' }, { tool_call_id: 'r2' }])
  expect(await ledger(turn.agentTurnId)).toEqual([
    { status: 'applied', tries: 2 },
    { status: 'applied', tries: 2 },
  ])
  expect(await tasksOf(t, turn.agentTurnId)).toMatchObject([{ status: 'success' }])
  expect(await interventionsOf(t, turn.agentTurnId)).toMatchObject([
    { kind: 'resume_replay', before: { claimed_by: 'worker-1' }, after: { claimed_by: 'alive' } },
  ])
  // The dead worker continues.
  expect(await t.kernel.resume(turn, 'worker-1')).toBe('stale')
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'mine' } })).toEqual({ what: 'already' })
  expect(await tasksOf(t, turn.agentTurnId)).toHaveLength(1)
})

it('[W2.3b] a worker killed between resume and deliver is taken over with its results, and nothing is applied again', async () => {
  await t.agents('dead-2')
  const turn = await suspendedTurn(t, 'dead-2', grepCalls('s1'))
  await reportSuccess(t, 's1', { n: 7 })
  await t.claim()
  expect(await t.kernel.resume(turn, 'worker-1')).toBe('resumed')
  const before = { cards: await resultCards(turn.outputBoxId), ledger: await ledger(turn.agentTurnId) }
  expect(before.ledger).toEqual([{ status: 'applied', tries: 1 }])
  const { calls, agent } = counting()
  const alive = workerOn(t, { workerId: 'alive-2', agent })
  await pass(t, 40, alive)
  expect(calls).toEqual([])
  await alive.worker.step()
  await turnsDone(alive.worker)
  expect(calls).toEqual([[{ n: 7 }]])
  expect({ cards: await resultCards(turn.outputBoxId), ledger: await ledger(turn.agentTurnId) }).toEqual(before)
  expect(await tasksOf(t, turn.agentTurnId)).toMatchObject([{ status: 'success' }])
  const row = await turnRow(t, turn.agentTurnId)
  expect(row).toMatchObject({ turn_epoch: turn.turnEpoch + 1, outcome: 'success' })
  expect((await t.kernel.readCard(row.deliverable_card_id!))?.content).toEqual({ text: '[{"n":7}]' })
  expect(await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'late' } })).toEqual({ what: 'stale' })
})

it('[W2.3b] of two workers with the same results one resumes and the other does nothing', async () => {
  await t.agents('twice')
  const turn = await suspendedTurn(t, 'twice', grepCalls('u1'))
  await reportSuccess(t, 'u1')
  const [first] = await t.claim()
  await pass(t, 35, workerOn(t))
  const claimant = { workerTarget: 'w', max: 10, resumeLeaseSeconds: 30 }
  const handed = await Promise.all(['x', 'y'].map((workerId) => t.kernel.reconcile({ ...claimant, workerId })))
  expect(handed.flat()).toHaveLength(1)
  const answers = await Promise.all([t.kernel.resume(first!, 'worker-1'), t.kernel.resume(handed.flat()[0]!, 'x')])
  expect(answers.toSorted()).toEqual(['resumed', 'stale'])
  const states = (await eventsOf(t, turn.agentTurnId, 'state')).map((event) => event.payload.status)
  expect(states).toEqual(['dispatched', 'running', 'suspended', 'running'])
  await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
})

it('[W2.3b] gives each of many turns to one of several workers that reconcile at the same time', async () => {
  const names = Array.from({ length: 60 }, (_, n) => `contested-${n}`)
  await t.agents(...names)
  for (const name of names) {
    await suspendedTurn(t, name, grepCalls(`c-${name}`))
    await reportSuccess(t, `c-${name}`)
  }
  await t.claim(names.length)
  await pass(t, 35, workerOn(t))
  const handed: ClaimedTurn[] = []
  const reconcileAll = async (workerId: string): Promise<void> => {
    handed.push(...(await t.kernel.reconcile({ workerTarget: 'w', workerId, max: 2, resumeLeaseSeconds: 30 })))
    if (handed.length < names.length) await reconcileAll(workerId)
  }
  await Promise.all(Array.from({ length: 8 }, (_, n) => reconcileAll(`w-${n}`)))
  expect(handed.map((turn) => turn.agentId).toSorted()).toEqual(names.toSorted())
  for (const { agentTurnId } of handed) await t.kernel.stop({ projectId: project, agentTurnId })
})

it('[W2.3b] does not reconcile a turn that still waits or has ended', async () => {
  await t.agents('half', 'over')
  const half = await suspendedTurn(t, 'half', grepCalls('v1', 'v2'))
  const over = await suspendedTurn(t, 'over', grepCalls('w1'))
  await reportSuccess(t, 'v1')
  await reportSuccess(t, 'w1')
  await t.claim()
  await t.kernel.stop({ projectId: project, agentTurnId: over.agentTurnId })
  const { calls, agent } = counting()
  const alive = workerOn(t, { workerId: 'alive-3', agent })
  await pass(t, 45, alive)
  await turnsDone(alive.worker)
  expect(calls).toEqual([])
  expect(await headOf(t, 'half')).toMatchObject({ status: 'suspended', waiting_tool_count: 1 })
  expect(await interventionsOf(t, half.agentTurnId)).not.toContainEqual(
    expect.objectContaining({ kind: 'resume_replay' }),
  )
})
