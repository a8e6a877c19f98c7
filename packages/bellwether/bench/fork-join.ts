/**
 * Compares a fork-join of a thousand children with a thousand plain turns, alternately in one run: the same agents, the same function
 * worker, one instruction each. Plain: from the first enqueue to the last end in the store. Forked: from the parent's enqueue to its
 * end, which follows the results of all children.
 */
import { systemClock, systemRandom } from '@bellwether/base'
import { openKernel } from '../src/kernel/kernel.js'
import { migrate } from '../src/kernel/schema/migrate.js'
import { runJoiner } from '../src/pmo/batches.js'
import { inProcessBell } from '../src/ports/bell/in-process.js'
import { notifyBell } from '../src/ports/bell/notify.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { uuidv7 } from '../src/ports/ids.js'
import { runWorker } from '../src/worker/loop.js'
import type { AgentFunction } from '../src/worker/agent.js'
import { quiet, workerSettings } from './ours.js'

const children = 1_000
const projectId = 'bench'
const workerTarget = 'bench'
export interface ForkJoinFigures {
  readonly children: number
  readonly plain_ms: number
  readonly reuse_ms: number
  readonly new_ms: number
  /** Forked over plain, with the same agents: the median of pairs that ran one after the other. */
  readonly ratio: number
  readonly ratio_new: number
}

export async function forkJoin(url: string, rounds: number): Promise<ForkJoinFigures> {
  const db = await openDatabase({ url, poolSize: 8 })
  await migrate(db)
  const bell = inProcessBell(notifyBell({ url, log: quiet }), systemRandom)
  const kernel = openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) })
  const names = Array.from({ length: children }, (_, at) => `a${at}`)
  await kernel.putProfile({ projectId, profileId: 'child', name: 'child', workerTarget })
  await kernel.putAgents(['boss', ...names].map((agentId) => ({ projectId, agentId, workerTarget })))
  const agent: AgentFunction = async (context) => {
    const { turn, results } = context
    const strategy = turn.payload['fork'] as 'reuse' | 'new' | undefined
    if (strategy === undefined || results.length > 0) return { deliver: { text: 'ok' } }
    const tasks = names.map((name) => ({
      targetStrategy: strategy,
      targetRef: strategy === 'new' ? 'child' : name,
      instruction: 'do it',
    }))
    return { suspend: { calls: [{ toolCallId: context.newId(), toolName: 'fork_join', args: {}, batch: { tasks } }] } }
  }
  const stop = new AbortController()
  const common = { kernel, clock: systemClock, log: quiet, signal: stop.signal }
  const worker = await runWorker({
    ...common,
    bell,
    workerId: 'bench',
    workerTarget,
    settings: workerSettings,
    loop: workerSettings,
    agent: () => agent,
  })
  const joiner = runJoiner({ ...common, bell })
  /** Reads the queue and the heads; counting all finished turns would take longer than what is measured. */
  const busy = async (): Promise<boolean> => {
    const heads = 'select from state.agent_state_head where active_agent_turn_id is not null'
    const rows = 'select from state.queue'
    const [row] = await db.query<{ busy: boolean }>({ text: `select exists (${heads}) or exists (${rows}) as busy` })
    return row?.busy ?? true
  }
  const ended = async (): Promise<number> => {
    const [row] = await db.query<{ count: number }>({
      text: "select count(*)::int as count from state.agent_inbox where outcome = 'success' and message_type = 'turn'",
    })
    return row?.count ?? 0
  }
  const unsettled = async (): Promise<boolean> => {
    const agents = "select from resource.project_agents where status = 'active' and metadata ? 'batch_id'"
    const text = `select exists (select from state.batches where settled_at is null) or exists (${agents}) as left`
    const [row] = await db.query<{ left: boolean }>({ text })
    return row?.left ?? false
  }
  /** Waits until all agents are idle after this many ends. It polls often, but not so often that polling is measured. */
  const timed = async (count: number, start: () => Promise<unknown>): Promise<number> => {
    // The rest of an answered batch must not slow the next run down.
    while (await unsettled()) await systemClock.sleep(50)
    const before = await ended()
    const startedMs = systemClock.monotonicMs()
    await start()
    while (await busy()) {
      if (systemClock.monotonicMs() - startedMs > 60_000) throw new Error('the turns did not end within a minute')
      await systemClock.sleep(5)
    }
    const tookMs = systemClock.monotonicMs() - startedMs
    const more = (await ended()) - before
    if (more !== count) throw new Error(`${more} turns ended instead of ${count}`)
    return tookMs
  }
  const plain = () =>
    timed(children, async () => {
      const turns = names.map((agentId) => ({ projectId, agentId, instruction: 'do it' }))
      await Promise.all([kernel.enqueueMany(turns.slice(0, 500)), kernel.enqueueMany(turns.slice(500))])
    })
  const forked = (fork: 'reuse' | 'new') =>
    timed(children + 1, () => kernel.enqueue({ projectId, agentId: 'boss', payload: { fork } }))
  try {
    // Warm up code and statistics.
    for (let round = 0; round < 2; round += 1)
      for (const run of [plain, () => forked('reuse'), () => forked('new')]) await run()
    await db.query({ text: 'vacuum (analyze)' })
    // In pairs: a machine that is slower for a while slows both.
    const pairs = { reuse: [] as Pair[], new: [] as Pair[] }
    for (let round = 0; round < rounds; round += 1) {
      for (const kind of ['reuse', 'new'] as const) {
        pairs[kind].push({ plainMs: await plain(), forkedMs: await forked(kind) })
      }
    }
    const ratio = (kind: 'reuse' | 'new') => round2(middle(pairs[kind].map((pair) => pair.forkedMs / pair.plainMs)))
    const forkedMs = (kind: 'reuse' | 'new') => Math.round(middle(pairs[kind].map((pair) => pair.forkedMs)))
    return {
      children,
      plain_ms: Math.round(middle([...pairs.reuse, ...pairs.new].map((pair) => pair.plainMs))),
      reuse_ms: forkedMs('reuse'),
      new_ms: forkedMs('new'),
      ratio: ratio('reuse'),
      ratio_new: ratio('new'),
    }
  } finally {
    stop.abort()
    await Promise.all([worker.ended, joiner])
    await bell.close()
    await db.close()
  }
}

interface Pair {
  readonly plainMs: number
  readonly forkedMs: number
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!
}

function round2(value: number): number {
  return Math.round(value * 100) / 100
}
