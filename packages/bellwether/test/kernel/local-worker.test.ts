/** A worker in the process that enqueues: the enqueue claims for it, in the same transaction (decision 0015). */
import { expect, it } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import type { Database } from '../../src/ports/database/database.js'
import type { AgentFunction } from '../../src/worker/agent.js'
import type { WorkerOptions } from '../../src/worker/scope.js'
import { kernelPerTest, project } from '../support/kernel.js'
import { silentBell } from '../support/silent-bell.js'
import { runTurns, testWorker, turnsDone, workerSettings } from '../support/worker.js'

const t = kernelPerTest()

/** A worker that is attached to the kernel and has seen the end of its queue; it notes the agents that it runs. */
async function attached(more: Partial<WorkerOptions> = {}) {
  const started: string[] = []
  let finish = (): void => undefined
  const finished = new Promise<void>((resolve) => (finish = resolve))
  const act: AgentFunction = async ({ turn }) => {
    started.push(turn.agentId)
    await finished
    return { deliver: { text: 'ok' } }
  }
  const worker = testWorker(t, () => act, more)
  const detach = t.kernel.attach(worker)
  await worker.step()
  t.rings()
  return { worker, started, detach, finish }
}

const enqueue = (agentId: string) => t.kernel.enqueue({ projectId: project, agentId })

it('[T1.5] starts a turn with the enqueue: both moves are announced, and no bell rings', async () => {
  await t.agents('ann')
  const { worker, started, finish } = await attached()
  const { agentTurnId, status } = await enqueue('ann')
  expect([started, status, t.rings()]).toEqual([['ann'], 'pending', []])
  finish()
  await turnsDone(worker)
  const events = await t.all<{ kind: string; status: string }>(
    `select kind, payload ->> 'status' as status from state.events where agent_turn_id = $1 order by event_id`,
    agentTurnId,
  )
  expect(events.map(({ kind, status: to }) => `${kind} ${to}`)).toEqual([
    'state dispatched',
    'state running',
    'task success',
    'state idle',
  ])
})

it('claims older turns first, and rings for those that it leaves', async () => {
  await t.agents('old', 'new')
  const { started, finish, worker } = await attached()
  // Another process enqueued it, and its ring has not arrived.
  const other = openKernel({ db: t.db, bell: silentBell, ids: t.ids })
  await other.enqueue({ projectId: project, agentId: 'old' })
  await enqueue('new')
  expect([started, t.rings().map(({ payload }) => payload['agent_id'])]).toEqual([['old'], ['new']])
  finish()
  await runTurns(worker)
  expect(started).toEqual(['old', 'new'])
})

it('leaves the claim to a worker that heard a bell, is full, drains or is detached', async () => {
  await t.agents('ann', 'bob', 'cid', 'dan')
  const { worker, started, detach, finish } = await attached({ settings: { ...workerSettings, concurrency: 2 } })
  worker.notice()
  await enqueue('ann')
  expect(started).toEqual([])
  await worker.step()
  await enqueue('bob')
  await enqueue('cid')
  expect(started).toEqual(['ann', 'bob'])
  finish()
  await turnsDone(worker)
  await runTurns(worker)
  detach()
  await enqueue('dan')
  expect(started).toEqual(['ann', 'bob', 'cid'])
})

it('serves several workers of one process, each with the turns of its target', async () => {
  await t.agents('ann', 'bob')
  const elsewhere = await attached({ workerId: 'w2', workerTarget: 'elsewhere' })
  const { worker, started, finish } = await attached()
  // The first enqueue asks the other worker, and leaves the turn in the queue.
  await enqueue('ann')
  await worker.step()
  await enqueue('bob')
  expect([elsewhere.started, started]).toEqual([[], ['ann', 'bob']])
  finish()
})

it('[W5.1] a drain waits for the claim of an enqueue in flight and hands its turn back', async () => {
  await t.agents('ann')
  const { worker } = await attached()
  const enqueued = enqueue('ann')
  await worker.drain(0)
  await enqueued
  expect(worker.running.size).toBe(0)
  expect(await t.one('select status from state.agent_inbox')).toEqual({ status: 'pending' })
})

it('enqueues without a claim if the claim meets a row that another program changes', async () => {
  await t.agents('ann')
  const conflict = Object.assign(new Error('conflict'), { code: '40001' })
  const db: Database = {
    ...t.db,
    query: async (statement) => {
      if (statement.name === 'bw_enqueue_and_claim') throw conflict
      return t.db.query(statement)
    },
  }
  const { worker, started } = await attached()
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  kernel.attach(worker)
  const { status } = await kernel.enqueue({ projectId: project, agentId: 'ann' })
  expect([status, started, worker.free()]).toEqual(['pending', [], workerSettings.concurrency])
})
