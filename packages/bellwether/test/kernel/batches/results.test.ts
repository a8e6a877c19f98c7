import { EventEmitter, once } from 'node:events'
import { systemClock } from '@bellwether/base'
import { expect, it } from 'vitest'
import type { NewTask } from '../../../src/kernel/verbs/batches/fork.js'
import { answerBatches } from '../../../src/kernel/verbs/batches/join.js'
import { openKernel } from '../../../src/kernel/kernel.js'
import { openJoiner, runJoiner } from '../../../src/pmo/batches.js'
import { notifyBell } from '../../../src/ports/bell/notify.js'
import { batchOf, forkFrom, join, reuse } from '../../support/forks.js'
import { kernelPerFile, project } from '../../support/kernel.js'
import { turnRow } from '../../support/kernel-rows.js'
import { enqueueTurn } from '../../support/kernel-turns.js'
import { quietLog } from '../../support/quiet-log.js'
import { until } from '../../support/until.js'
import { runTurns, testWorker } from '../../support/worker.js'

const t = kernelPerFile()

interface Answer {
  readonly status: string
  readonly error?: { readonly code: string; readonly message: string }
  readonly result: {
    readonly status: string
    readonly done: number
    readonly failed: number
    readonly tasks: readonly Readonly<Record<string, unknown>>[]
  }
}

const answerOf = async (toolCallId: string) => {
  const { content } = await t.one<{ content: Answer }>(
    "select content from cards.cards where type = 'tool.result' and content ->> 'tool_call_id' = $1",
    toolCallId,
  )
  return content
}

/** Forks these tasks from a parent and claims the children. */
async function forked(name: string, tasks: readonly NewTask[], more: { failFast?: boolean } = {}) {
  await t.agents(name)
  const parent = await t.running(name)
  const batchId = await forkFrom(t, parent, `${name}-call`, { tasks, ...more })
  return { parent, batchId, children: await t.claim() }
}

it('[T3.1d] the answer contains each task in order: its deliverable, or why it failed or is missing', async () => {
  await t.agents('a0', 'a1', 'a2')
  const tasks = [reuse('a0'), reuse('a1'), reuse('a2'), reuse('ghost')]
  const { children, batchId } = await forked('anna', tasks)
  const childOf = (agentId: string) => children.find((one) => one.agentId === agentId)!
  const fields = [{ name: 'ok', value: null }]
  await t.kernel.deliver({ ...childOf('a0'), status: 'success', content: { fields } })
  await t.kernel.deliver({ ...childOf('a1'), status: 'failed', error: 'broken', content: { text: 'it "broke"' } })
  await t.kernel.stop({ projectId: project, agentTurnId: childOf('a2').agentTurnId, reason: 'enough' })
  for (let tries = 0; tries < 6; tries += 1) {
    await t.advance(20)
    await join(t)
  }
  const { status, error, result } = await answerOf('anna-call')
  expect([status, error]).toEqual(['partial', undefined])
  const { tasks: rows } = await batchOf(t, batchId)
  expect(result).toEqual({
    batch_id: batchId,
    status: 'done',
    done: 1,
    failed: 3,
    tasks: [
      {
        position: 0,
        status: 'success',
        agent_id: 'a0',
        agent_turn_id: rows[0]!.agent_turn_id,
        deliverable_card_id: rows[0]!.deliverable_card_id,
        content: { fields },
      },
      {
        position: 1,
        status: 'failed',
        agent_id: 'a1',
        agent_turn_id: rows[1]!.agent_turn_id,
        error: 'broken',
        deliverable_card_id: rows[1]!.deliverable_card_id,
        content: {
          text: 'it "broke"',
          fallback: {
            code: 'broken',
            ended_by: 'worker',
            reason: 'it "broke"',
            started: true,
            cards: 0,
            tool_results_received: 0,
            truncated: false,
            output_box_id: childOf('a1').outputBoxId,
          },
        },
      },
      expect.objectContaining({ position: 2, status: 'canceled', agent_id: 'a2' }),
      expect.objectContaining({ position: 3, status: 'failed', agent_id: 'ghost', error: 'unknown_agent' }),
    ],
  })
})

it('long deliverables are truncated to their share and marked; the card has all of the content', async () => {
  await t.agents('b0', 'b1')
  const { children } = await forked('bert', [reuse('b0'), reuse('b1')])
  const long = `ü"\n`.repeat(100_000)
  for (const child of children)
    await t.kernel.deliver({ ...child, status: 'success', content: { text: child.agentId === 'b0' ? long : 'short' } })
  await join(t)
  const [cut, whole] = (await answerOf('bert-call')).result.tasks
  expect(cut).toMatchObject({ status: 'success', truncated: true })
  expect(cut!['content']).toHaveLength(200_000)
  expect(whole).toMatchObject({ content: { text: 'short' } })
  expect(whole).not.toHaveProperty('truncated')
  expect(await t.kernel.readCard(String(cut!['deliverable_card_id']))).toMatchObject({ content: { text: long } })
})

it('[T8.2] any process may send an answer any number of times, and it counts once; an open batch has none', async () => {
  await t.agents('c0', 'c1')
  const { children, batchId } = await forked('cora', [reuse('c0'), reuse('c1')], { failFast: true })
  expect(await answerBatches(t.db, t.ids, [batchId, 'no such batch'])).toEqual([])
  await t.kernel.deliver({ ...children[0]!, status: 'failed', error: 'x', content: { text: 'no' } })
  await join(t)
  expect(await answerOf('cora-call')).toMatchObject({
    status: 'failed',
    error: { code: 'batch_failed', message: '0 of 2 tasks were done' },
  })
  const again = await Promise.all([1, 2].map(() => answerBatches(t.db, t.ids, [batchId])))
  expect(again.flat().map((verdict) => verdict.what)).toEqual(['ignored', 'ignored'])
})

it('children are in the trace of their parent, below the call that forked them', async () => {
  await t.agents('d0', 'dora')
  const trace = '0af7651916cd43dd8448eb211c80319c'
  const { agentTurnId } = await enqueueTurn(t, 'dora', { traceparent: `00-${trace}-b7ad6b7169203331-01` })
  const parent = (await t.claim()).find((one) => one.agentTurnId === agentTurnId)!
  const batchId = await forkFrom(t, parent, 'dora-call', [reuse('d0')])
  const [child] = await t.claim()
  expect(child!.traceparent).toBe(`00-${trace}-${batchId.replaceAll('-', '').slice(0, 16)}-01`)
  expect(await turnRow(t, child!.agentTurnId)).toMatchObject({ agent_id: 'd0' })
})

// After a crash, an event that was read but not yet on the disk would be lost, and its id given to another event.
it('counting and answering do not wait for the disk; verbs that write events do', async () => {
  const functions = await t.all<{ name: string; source: string }>(
    `select p.proname as name, p.prosrc as source from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'state'`,
  )
  const careless = functions.filter(({ source }) => source.includes("set_config('synchronous_commit', 'off', true)"))
  expect(careless.map(({ name }) => name).sort()).toEqual(['answer_batches', 'collect_batches', 'retire_agents'])
  const after = await t.db.transaction(async (tx) => {
    await tx.query({ text: 'select * from state.collect_batches($1)', values: [[t.ids.next()]] })
    return tx.query<{ commit: string }>({ text: "select current_setting('synchronous_commit') as commit" })
  })
  expect(after).toEqual([{ commit: 'off' }])
  // Only in that transaction.
  const [later] = await t.all<{ commit: string; usual: string }>(
    "select current_setting('synchronous_commit') as commit, reset_val as usual from pg_settings where name = 'synchronous_commit'",
  )
  expect(later!.commit).toBe(later!.usual)
})

it('a waiting joiner handles a new batch when its bell rings, before its next poll', async () => {
  await t.agents('b0')
  const bell = notifyBell({ url: t.url, log: quietLog })
  const kernel = openKernel({ db: t.db, bell, ids: t.ids })
  const stop = new AbortController()
  const waits = new EventEmitter()
  const waiting = once(waits, 'begun')
  const clock = {
    ...systemClock,
    // Only the bell and the end of the test wake it.
    sleep: async (_ms: number, signal?: AbortSignal) => {
      waits.emit('begun')
      if (signal?.aborted === false) await once(signal, 'abort')
    },
  }
  const joiner = runJoiner({ kernel, bell, clock, log: quietLog, signal: stop.signal })
  await waiting
  const { batchId } = await kernel.fork({ projectId: project, tasks: [reuse('b0')] })
  const looked = await until('it has looked', async () => {
    const { next_look_at: next, created_at: made } = await t.one<{ next_look_at: Date; created_at: Date }>(
      'select next_look_at, created_at from state.batches where batch_id = $1',
      batchId,
    )
    return next > made || undefined
  })
  expect(looked).toBe(true)
  stop.abort()
  await joiner
  await bell.close()
})

it('a worker rings for a batch when its last task of it has ended, and the joiner looks before the batch is due', async () => {
  await t.agents('rung-1', 'rung-2', 'rung-boss')
  const parent = await t.running('rung-boss')
  const batchId = await forkFrom(t, parent, 'rung', [reuse('rung-1'), reuse('rung-2')])
  await t.all("update state.batches set next_look_at = state.now() + interval '5 seconds' where batch_id = $1", batchId)
  t.rings()
  await runTurns(testWorker(t, () => async () => ({ deliver: { text: 'ok' } })))
  const rings = t.rings().filter(({ subject }) => subject.endsWith('.fork_join'))
  expect(rings.map(({ payload }) => payload)).toEqual([{ batch_id: batchId }])
  const joiner = openJoiner({ kernel: t.kernel })
  await joiner.step()
  expect((await batchOf(t, batchId)).status).toBe('open')
  await joiner.step([batchId])
  expect((await batchOf(t, batchId)).status).toBe('done')
})
