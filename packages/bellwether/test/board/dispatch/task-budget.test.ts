/** The budget of a task before, during and after its runs. */
import { expect, it } from 'vitest'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import type { DispatchReport } from '@bellwether/protocol/http'
import type { FakeKernel } from '../../support/board/fake-kernel.js'
import {
  created,
  dispatcherOf,
  makeWorld,
  put,
  referenceBudget,
  taskOf,
  type World,
} from '../../support/board/dispatcher.js'

const never = new AbortController().signal
async function dispatched(world: World, taskId = 'T-1', script?: FakeKernel['script']): Promise<DispatchReport> {
  if (script !== undefined) world.kernel.script = script
  return dispatch(dispatcherOf(world), taskId, never)
}

it('[H7.3] a used-up budget blocks the task before a turn is spawned', async () => {
  const world = makeWorld()
  const spent = { taskId: 'T-1', agent: 'coder', tokenUsage: 12_000, elapsedMs: 1, retryCount: 1, updatedAt: '' }
  await put(world, created('T-1', { budget: { coder: spent } }))
  const report = await dispatched(world)
  expect(report).toMatchObject({
    status: 'blocked',
    reason: 'budget_exceeded',
    spawn: {
      outcome: 'not_spawned',
      reasonCode: 'budget_exceeded',
      nextAssignee: 'human',
      action: 'escalate',
      degradeAction: 'manual_handoff',
      exceededKeys: ['maxTaskTokens'],
    },
  })
  expect(world.kernel.calls).toEqual([])
})

it('[H7.4] a run that exceeded its budget is blocked for a human, with the exceeded keys', async () => {
  const world = makeWorld()
  await put(world, created('T-1'))
  const report = await dispatched(world, 'T-1', () => ({ tokenUsage: 12_001, elapsedMs: 1_200_001 }))
  expect(report).toMatchObject({
    status: 'blocked',
    spawn: {
      reasonCode: 'budget_exceeded',
      nextAssignee: 'human',
      action: 'escalate',
      recoveryState: 'escalated_to_human',
      degradeAction: 'manual_handoff',
      exceededKeys: ['maxTaskTokens', 'maxTaskWallTimeSec'],
      metrics: { elapsedMs: 1_200_001, tokenUsage: 12_001 },
    },
  })
})

it('[H7.4] a turn that the kernel stopped at its budget is budget_exceeded, even if the recorded usage is lower', async () => {
  const world = makeWorld()
  await put(world, created('T-1'))
  const report = await dispatched(world, 'T-1', () => ({
    outcome: 'failed',
    error: 'budget_exceeded',
    exceededKeys: ['cost_micros'],
    deliverable: null,
  }))
  expect(report.spawn).toMatchObject({
    reasonCode: 'budget_exceeded',
    nextAssignee: 'human',
    action: 'escalate',
    exceededKeys: ['maxTaskCostUsd'],
  })
})

it('[H7.3] the spawn gets the purse of the task with what was used', async () => {
  const world = makeWorld()
  const spent = { taskId: 'T-1', agent: 'coder', tokenUsage: 2_000, elapsedMs: 200_000, retryCount: 1, updatedAt: '' }
  await put(world, created('T-1', { budget: { coder: spent } }))
  await dispatched(world, 'T-1', () => ({}))
  expect([...world.kernel.turns.values()][0]!.request.purse).toMatchObject({
    limits: { tokens: 12_000, wallTimeMs: 1_200_000 },
    used: { tokens: 2_000, wallTimeMs: 200_000, costMicros: 0 },
  })
  expect((await taskOf(world)).fields['budget']).toMatchObject({
    coder: { tokenUsage: 2_100, elapsedMs: 200_050, retryCount: 2 },
  })
})

it('[H7.1] the limits of an agent apply to its runs only: spawn budget, check and action', async () => {
  const budget = { ...referenceBudget, agents: { coder: { maxTaskTokens: 500, onExceeded: 'stop_run' as const } } }
  const world = makeWorld({ budget })
  await put(world, created('T-1', { agent: 'coder' }), created('T-2', { agent: 'debugger' }))
  const used = () => ({ tokenUsage: 600 })
  expect((await dispatched(world, 'T-1', used)).spawn).toMatchObject({
    reasonCode: 'budget_exceeded',
    degradeAction: 'stop_run',
    exceededKeys: ['maxTaskTokens'],
  })
  expect(await dispatched(world, 'T-2', used)).toMatchObject({ status: 'done', spawn: { reasonCode: null } })
  expect([...world.kernel.turns.values()].map(({ request }) => request.purse.limits.tokens)).toEqual([500, 12_000])
})
