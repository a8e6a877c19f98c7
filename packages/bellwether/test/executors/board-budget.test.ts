/** The limits of config/budget-policy.json on real runs: a task root on disk, a real kernel, a worker with the command executor. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { dispatch } from '../../src/board/dispatch/dispatch.js'
import { createRequest } from '../../src/board/dispatch/requests.js'
import type { Dispatcher } from '../../src/board/dispatch/dispatcher.js'
import { retryTask } from '../../src/board/tasks/task-commands.js'
import type { CommandSpec } from '../../src/worker/executors/command.js'
import { openBoardWorker } from './board-worker.js'
import { carriers, openCommandSetup, type CommandSetup } from './command-setup.js'

let b: CommandSetup
let root = ''
let close = async () => {}
let dispatcher: Dispatcher
const never = new AbortController().signal
beforeAll(async () => {
  b = await openCommandSetup()
  root = await mkdtemp(join(tmpdir(), 'bellwether-budget-'))
  await mkdir(join(root, 'config'))
  await writeFile(join(root, 'config', 'acceptance-policy.json'), JSON.stringify({ default: { minEvidence: 0 } }))
})
afterAll(async () => {
  await close()
  await b.close()
  await rm(root, { recursive: true, force: true })
})

const used = (id: number) =>
  JSON.stringify({ type: 'assistant', message: { id: `m${id}`, usage: { input_tokens: 400, output_tokens: 100 } } })
const result = JSON.stringify({
  type: 'result',
  result: JSON.stringify({ summary: 'did it', files: [] }),
  usage: { input_tokens: 1_200, output_tokens: 300 },
  total_cost_usd: 0.5,
})
const lines = [used(1), used(2), used(3)].map((line) => `echo '${line}'`).join('; ')
// Uses 1,500 tokens, then works without an end, or is done.
const endless = `echo "half of it" >&2; ${lines}; sleep 1000`
const done = `${lines}; echo '${result}'`
const agents: Readonly<Record<string, Partial<CommandSpec>>> = {
  coder: { preset: 'claude', command: endless },
  rich: { preset: 'claude', command: done },
  slow: { command: 'sleep 1000' },
  dear: { preset: 'claude', command: `${done}; sleep 1000` },
}

async function open(): Promise<void> {
  await b.t.agents(...Object.keys(agents))
  ;({ dispatcher, close } = await openBoardWorker(b, { root, commandOf: (agentId) => agents[agentId]! }))
}

const whyExceeded = (key: string) =>
  new RegExp(`^budget_exceeded: .* of .*, set by "(global|agents\\.\\w+)\\.${key}" of config/budget-policy.json$`)

async function run(agent: string) {
  const { taskId } = await createRequest(dispatcher, { title: agent, instruction: 'Do it.', agent }, 'ann')
  return dispatch(dispatcher, taskId, never)
}

it('[H7.1] [H7.5] [H7.6] the limits of the policy file stop real commands while they run, per agent, and count executions', async () => {
  const policy = {
    global: { maxTaskTokens: 1_000, maxTaskRetries: 1, degradePolicy: ['reduced_context'], onExceeded: null },
    agents: {
      rich: { maxTaskTokens: 2_000 },
      slow: { maxTaskTokens: null, maxTaskWallTimeSec: 0.5 },
      dear: { maxTaskTokens: null, maxTaskCostUsd: 0.1 },
    },
  }
  await writeFile(join(root, 'config', 'budget-policy.json'), JSON.stringify(policy))
  await open()
  const limits = [
    ['coder', 'maxTaskTokens', 'tokens'],
    ['slow', 'maxTaskWallTimeSec', 'wall_ms'],
    ['dear', 'maxTaskCostUsd', 'cost_micros'],
  ] as const
  for (const [agent, key, kernelKey] of limits) {
    const { taskId, status, spawn } = await run(agent)
    expect([agent, status, spawn]).toMatchObject([
      agent,
      'blocked',
      {
        reasonCode: 'budget_exceeded',
        outcome: 'failed',
        error: expect.stringMatching(whyExceeded(key)),
        exceededKeys: [key],
      },
    ])
    const turn = spawn!.agentTurnId!
    expect(carriers(turn)).toEqual([])
    const event = await b.t.one<{ payload: object }>(
      `select payload from state.events where agent_turn_id = $1 and kind = 'task'`,
      turn,
    )
    expect(event.payload).toMatchObject({ status: 'failed', error: 'budget_exceeded', exceeded_keys: [kernelKey] })
    const deliverable = JSON.stringify(dispatcher.board.state.tasks.get(taskId)!.fields['deliverable'])
    expect(deliverable).toContain('exceeded the budget')
    expect(deliverable.includes('half of it')).toBe(agent === 'coder')
  }
  const rich = await run('rich')
  expect(rich).toMatchObject({ status: 'done', spawn: { metrics: { tokenUsage: 1_500, costMicros: 500_000 } } })

  // One execution is allowed: a retry is not spawned, unless the budget is fresh.
  const retry = (freshBudget: boolean) =>
    retryTask({ ...dispatcher, firstAgent: 'coder', nowMs: () => systemClock.wallMs() }, 'T-1', {
      by: 'ann',
      freshBudget,
    })
  const turns = async () => (await b.t.one<{ turns: number }>('select count(*)::int as turns from state.turns')).turns
  const before = await turns()
  await retry(false)
  expect((await dispatch(dispatcher, 'T-1', never)).spawn).toMatchObject({
    outcome: 'not_spawned',
    exceededKeys: ['maxTaskTokens', 'maxTaskRetries'],
  })
  expect(await turns()).toBe(before)
})

it('[H7.7] the action that a limit led to changes the next real run of the task, and its step says so', async () => {
  // The task of the test before: its last action was reduced_context.
  const taskId = 'T-1'
  await retryTask({ ...dispatcher, firstAgent: 'rich', nowMs: () => systemClock.wallMs() }, taskId, {
    by: 'ann',
    freshBudget: true,
    agent: 'rich',
  })
  const report = await dispatch(dispatcher, taskId, never)
  expect(report.status).toBe('done')
  const step = await b.t.one<{ metadata: object }>(
    'select metadata from state.agent_steps where agent_turn_id = $1',
    report.spawn!.agentTurnId,
  )
  expect(step.metadata).toMatchObject({ degraded: [{ action: 'reduced_context' }] })
  expect(dispatcher.board.state.tasks.get(taskId)!.fields['degrade']).toMatchObject({ actions: ['reduced_context'] })
})
