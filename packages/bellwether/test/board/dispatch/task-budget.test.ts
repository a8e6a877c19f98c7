/** The budget of a task before, during and after its runs. */
import { expect, it } from 'vitest'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import type { RunDegrade } from '../../../src/board/dispatch/spawn-turn.js'
import type { BudgetPolicy } from '../../../src/board/policies/budget.js'
import { retryTask } from '../../../src/board/tasks/task-commands.js'
import type { FakeKernel } from '../../support/board/fake-kernel.js'
import {
  created,
  dispatched,
  dispatcherOf,
  makeWorld,
  never,
  operator,
  put,
  referenceBudget,
  taskOf,
  type World,
} from '../../support/board/dispatcher.js'

it('[H7.3] [H7.8] a used-up budget blocks the task before a turn is spawned, and names what was used, the limit and its key', async () => {
  const world = makeWorld()
  const spent = { taskId: 'T-1', agent: 'coder', tokenUsage: 12_000, elapsedMs: 1, retryCount: 1, updatedAt: '' }
  await put(world, created('T-1', { budget: { coder: spent } }))
  const report = await dispatched(world)
  expect(report).toMatchObject({
    status: 'blocked',
    reason: 'budget_exceeded',
    spawn: {
      outcome: 'not_spawned',
      error: `budget_exceeded: fresh tokens 12,000 of 12,000, set by "global.maxTaskTokens" of config/budget-policy.json`,
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
    error: 'budget_exceeded: fresh tokens 600 of 500, set by "agents.coder.maxTaskTokens" of config/budget-policy.json',
  })
  expect(await dispatched(world, 'T-2', used)).toMatchObject({ status: 'done', spawn: { reasonCode: null } })
  expect([...world.kernel.turns.values()].map(({ request }) => request.purse.limits.tokens)).toEqual([500, 12_000])
})

const noBackfill = { written: false, mistakes: 0, patterns: 0, tags: [] }
const over = { outcome: 'failed', error: 'budget_exceeded', exceededKeys: ['tokens'], deliverable: null } as const
const budgetWith = (changes: Partial<BudgetPolicy['global']>) => ({
  ...referenceBudget,
  global: { ...referenceBudget.global, ...changes },
})
const hints = async () => ({
  section: '# KNOWLEDGE_HINTS\n\nlook twice',
  outcome: { degraded: false, degradeReason: null, knowledgeTags: [], backfill: null },
})
const requests = (world: World) => [...world.kernel.turns.values()].map(({ request }) => request)

it.each(['reduced_context', 'cheaper_model', 'fewer_tools'] as const)(
  '[H7.7] %s changes the next run of the task and no later one, and the lines say so',
  async (action) => {
    const world = makeWorld({ budget: budgetWith({ onExceeded: action }) })
    const dispatcher = dispatcherOf(world, { knowledge: { hints, backfill: async () => noBackfill } })
    const run = async (script: FakeKernel['script']) => {
      world.kernel.script = script
      return dispatch(dispatcher, 'T-1', never)
    }
    const retry = () => retryTask({ ...operator(world), firstAgent: 'coder' }, 'T-1', { by: 'ann', freshBudget: true })
    await put(world, created('T-1'))
    const report = await run(() => over)
    expect(report).toMatchObject({ status: 'blocked', spawn: { degradeAction: action, nextAssignee: 'human' } })
    expect(report.spawn?.degradeEffect).toContain('next run')
    await retry()
    await run(() => ({ deliverable: { status: 'failed', reason: 'no' } }))
    const degraded = (await taskOf(world)).fields['degrade'] as RunDegrade
    expect(degraded.actions).toEqual([action])
    expect(degraded.promptChars < degraded.fullPromptChars).toBe(action === 'reduced_context')
    await retry()
    await run(() => ({}))
    expect((await taskOf(world)).fields).toMatchObject({ degrade: null, degradeAction: null })
    expect(requests(world).map(({ degrade }) => degrade)).toEqual([[], [action], []])
    const withHints = requests(world).map(({ prompt }) => prompt.includes('look twice'))
    expect(withHints).toEqual([true, action !== 'reduced_context', true])
  },
)

it('[H7.7] manual_handoff assigns the task to a person, with the work so far', async () => {
  const world = makeWorld({ budget: budgetWith({ onExceeded: 'manual_handoff' }) })
  await put(world, created('T-1', { agent: 'coder' }))
  const report = await dispatched(world, 'T-1', () => ({ ...over, deliverable: { text: 'half of it' } }))
  expect(report.spawn).toMatchObject({ degradeAction: 'manual_handoff', recoveryState: 'escalated_to_human' })
  expect(report.spawn?.degradeEffect).toContain('assigned to a person')
  const task = await taskOf(world)
  expect(task).toMatchObject({ status: 'blocked', assignee: 'human', fields: { deliverable: { text: 'half of it' } } })
})

it('[H7.7] stop_run fails the task: no agent and no person is asked again', async () => {
  const world = makeWorld({ budget: budgetWith({ onExceeded: 'stop_run' }) })
  await put(world, created('T-1'))
  const report = await dispatched(world, 'T-1', () => over)
  expect(report).toMatchObject({
    status: 'failed',
    reason: 'budget_exceeded',
    spawn: { degradeAction: 'stop_run', exceededKeys: ['maxTaskTokens'] },
  })
  expect(report.spawn?.degradeEffect).toContain('failed')
  expect((await taskOf(world)).fields).not.toHaveProperty('recovery')
})

it('[H7.7] a run that starts with less than a quarter of a limit left is degraded by the sequence, also with onExceeded', async () => {
  const sequence = ['fewer_tools', 'reduced_context', 'manual_handoff', 'cheaper_model'] as const
  const world = makeWorld({ budget: budgetWith({ degradePolicy: [...sequence], onExceeded: 'manual_handoff' }) })
  const spent = (tokenUsage: number) => ({
    budget: { coder: { taskId: 'T', agent: 'coder', tokenUsage, elapsedMs: 1, retryCount: 1, updatedAt: '' } },
  })
  await put(world, created('T-1', spent(9_000)), created('T-2', spent(9_001)))
  for (const taskId of ['T-1', 'T-2']) await dispatched(world, taskId, () => ({}))
  expect(requests(world).map(({ degrade }) => degrade)).toEqual([[], ['fewer_tools', 'reduced_context']])
  expect(requests(world).map(({ degradePolicy }) => degradePolicy)).toEqual([sequence, sequence])
})

it('[H7.7] a turn that the kernel stopped counts as exceeded: the next action of the sequence applies the next time', async () => {
  const world = makeWorld({ budget: budgetWith({ onExceeded: null }) })
  await put(world, created('T-1'))
  const actions: (string | null | undefined)[] = []
  for (let time = 0; time < 3; time += 1) {
    actions.push((await dispatched(world, 'T-1', () => over)).spawn?.degradeAction)
    await retryTask({ ...operator(world), firstAgent: 'coder' }, 'T-1', { by: 'ann' })
  }
  expect(actions).toEqual(['reduced_context', 'manual_handoff', 'stop_run'])
})
