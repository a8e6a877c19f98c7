/** Agents that a fork makes are done by whom they come from: the file of a file agent, the function of a function agent. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { BatchRow } from '@bellwether/protocol/http'
import { agentFor, defineAgents } from '../../src/worker/agents.js'
import { cloneOriginsOf } from '../../src/worker/clone-origin.js'
import { openWorkerProcesses, project as folderProject, type WorkerProcesses } from '../executors/worker-processes.js'
import { batchOf, join } from '../support/forks.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { until } from '../support/until.js'
import { runTurns, testWorker } from '../support/worker.js'

describe('a clone of a file agent', () => {
  let processes: WorkerProcesses
  beforeAll(async () => {
    processes = await openWorkerProcesses({
      scribe:
        '---\ncommand: [/bin/sh, -c, "cat >/dev/null; echo written by $BELLWETHER_AGENT"]\ncwd: work\n---\nWrite.\n',
    })
    await Promise.all([processes.add('worker'), processes.add('pmo')])
  })
  afterAll(() => processes.stop())

  it('a clone of a file agent is run by the file of its origin: a new agent, a clone, and a clone of a clone', async () => {
    const joined = (batchId: string) =>
      until(
        'the batch is done',
        async () => {
          const batch = await processes.kernel.readBatch(folderProject, batchId)
          return batch === undefined || batch.status === 'open' ? undefined : batch
        },
        40_000,
      )
    const task = (targetStrategy: 'new' | 'clone' | 'reuse', targetRef: string) => ({
      targetStrategy,
      targetRef,
      instruction: 'do it',
    })
    const tasks = [task('new', 'scribe'), task('clone', 'scribe'), task('reuse', 'scribe')]
    const first = await joined((await processes.kernel.fork({ projectId: folderProject, tasks })).batchId)
    expect(texts(first)).toEqual([
      expect.stringMatching(/^written by scribe-[0-9a-f-]{36}$/),
      expect.stringMatching(/^written by scribe-[0-9a-f-]{36}$/),
      'written by scribe',
    ])
    const copy = task('clone', first.tasks[1]!.agent_id!)
    const second = await joined((await processes.kernel.fork({ projectId: folderProject, tasks: [copy] })).batchId)
    expect(texts(second)).toEqual([expect.stringMatching(/^written by scribe-[0-9a-f-]{36}-[0-9a-f-]{36}$/)])
  })
})

const texts = (batch: BatchRow) =>
  batch.tasks.map(({ content, outcome }) => (content as { text?: string } | null)?.text ?? outcome)

describe('a clone of a function agent', () => {
  const t = kernelPerFile()

  it('a clone of a function agent is run by the function of its origin or profile, and an unknown agent by none', async () => {
    await t.kernel.putProfile({ projectId: project, profileId: 'kind', name: 'kind', workerTarget: target })
    await t.kernel.putAgents([
      { projectId: project, agentId: 'greeter', workerTarget: target },
      { projectId: project, agentId: 'other', workerTarget: target, profileId: 'kind' },
      { projectId: project, agentId: 'stranger', workerTarget: target },
    ])
    const agents = defineAgents({
      greeter: async () => ({ deliver: { text: 'greeter' } }),
      kind: async () => ({ deliver: { text: 'kind' } }),
    })
    const worker = testWorker(t, (turn) =>
      agentFor((name) => (Object.hasOwn(agents, name) ? agents[name as keyof typeof agents] : undefined), turn),
    )
    const tasks = [
      { targetStrategy: 'clone' as const, targetRef: 'greeter', instruction: 'x' },
      { targetStrategy: 'new' as const, targetRef: 'kind', instruction: 'x' },
      { targetStrategy: 'clone' as const, targetRef: 'stranger', instruction: 'x' },
    ]
    const { batchId } = await t.kernel.fork({ projectId: project, tasks })
    await runTurns(worker)
    await join(t)
    expect(texts(await batchOf(t, batchId))).toEqual([
      'greeter',
      'kind',
      expect.stringContaining('This worker has no function for agent'),
    ])
  })
})

describe('cloneOriginsOf', () => {
  const [one, two] = ['018f0000-0000-7000-8000-000000000001', '018f0000-0000-7000-8000-000000000002']
  const turn = (agentId: string, agentTurnId: string, target_ref?: unknown) =>
    ({ agentId, agentTurnId, payload: { target_ref } }) as Pick<ClaimedTurn, 'agentId' | 'agentTurnId' | 'payload'>

  it('reads the origin from agent id and turn id, and ignores a forged payload', () => {
    expect(cloneOriginsOf(turn(`ann-${one}`, one, 'ann'))).toEqual(['ann'])
    expect(cloneOriginsOf(turn(`ann-${one}-${two}`, two, `ann-${one}`))).toEqual([`ann-${one}`, 'ann'])
    expect(cloneOriginsOf(turn('bob', one, 'ann'))).toEqual([])
    expect(cloneOriginsOf(turn(`ann-${one}`, two, 'ann'))).toEqual([])
    expect(cloneOriginsOf(turn(`ann-${one}`, one, 'root'))).toEqual([])
    expect(cloneOriginsOf(turn('ann', one, { ann: 1 }))).toEqual([])
    expect(cloneOriginsOf(turn('ann', one))).toEqual([])
  })
})
