/**
 * Our side of the turns bench, through the public verbs: real enqueue, the real worker loop with a function agent, the real
 * notify bell, every trigger and constraint on. A job is a turn of one of the fleet's agents; its handler does nothing.
 */
import { systemClock, systemRandom } from '@bellwether/base'
import { openKernel, type Kernel } from '../src/kernel/kernel.js'
import { migrate } from '../src/kernel/schema/migrate.js'
import { inProcessBell } from '../src/ports/bell/in-process.js'
import { notifyBell } from '../src/ports/bell/notify.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { uuidv7 } from '../src/ports/ids.js'
import { runWorker, type RunningWorker } from '../src/worker/loop.js'
import type { Contender, Ledger } from './measure.js'

export const fleetSize = 20_000
const projectId = 'bench'
const workerTarget = 'bench'
// What runs at once; claims of up to this many share a round trip.
const concurrency = 1_000

export const quiet = {
  info: () => undefined,
  warn: () => undefined,
  error: (fields: object, message: string) => void process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
}
export const workerSettings = {
  concurrency,
  suspendTimeoutSeconds: 30,
  resumeLeaseSeconds: 30,
  inboxProcessingTimeoutSeconds: 30,
  watchdogIntervalSeconds: 5,
  maxDeaths: 3,
  pollSeconds: 5,
  beatSeconds: 5,
  drainSeconds: 10,
}

export interface Ours extends Contender {
  readonly kernel: Kernel
}

export async function ours(databaseUrl: string, ledger: Ledger, agents = fleetSize): Promise<Ours> {
  const setUp = await open(databaseUrl)
  await migrate(setUp.kernel.db)
  for (let from = 0; from < agents; from += 2_000) {
    const count = Math.min(2_000, agents - from)
    await setUp.kernel.putAgents(
      Array.from({ length: count }, (_, at) => ({ projectId, agentId: `a${from + at}`, workerTarget })),
    )
  }
  // Closing its sessions adds these rows to the statistics, so that a cost meter opened now does not count them.
  await setUp.close()
  const { kernel, bell, close } = await open(databaseUrl)
  const { db } = kernel
  const turnOf = (job: number) => ({ projectId, agentId: `a${job % agents}`, payload: { job } })
  const count = async (text: string): Promise<number> => {
    const [row] = await db.query<{ count: number }>({ text })
    return Number(row?.count)
  }
  let worker: { running: RunningWorker; stop: AbortController } | undefined
  let workers = 0
  const stopWorker = async (): Promise<void> => {
    worker?.stop.abort()
    await worker?.running.ended
    worker = undefined
  }
  return {
    kernel,
    pausable: true,
    bulkCallers: 2,
    async enqueueMany(jobs) {
      const refused = (await kernel.enqueueMany(jobs.map(turnOf))).find((result) => result instanceof Error)
      if (refused !== undefined) throw refused
    },
    async enqueueOne(job) {
      await kernel.enqueue(turnOf(job))
    },
    async startWorker() {
      if (worker !== undefined) return
      const stop = new AbortController()
      workers += 1
      const running = await runWorker({
        kernel,
        bell,
        clock: systemClock,
        log: quiet,
        signal: stop.signal,
        workerId: `bench-${workers}`,
        workerTarget,
        settings: workerSettings,
        loop: workerSettings,
        agent: () => async (context) => {
          ledger.ran(context.turn.payload['job'] as number)
          return { deliver: { text: 'ok' } }
        },
      })
      worker = { running, stop }
    },
    stopWorker,
    // The queue lists the turns that wait, the heads those that were claimed.
    unfinished: () =>
      count(`select (select count(*) from state.queue)
        + (select count(*) from state.agent_state_head where awake and status <> 'idle') as count`),
    async settle() {
      for (const table of [
        'state.agent_inbox',
        'state.queue',
        'state.agent_state_head',
        'state.outbox',
        'cards.cards',
        'cards.box_cards',
      ]) {
        await db.query({ text: `vacuum (analyze) ${table}` })
      }
    },
    async verify(total) {
      // Every row that a turn leaves, not one of them alone.
      const rows = {
        ended: "select count(*) from state.agent_inbox where outcome = 'success' and payload ? 'job'",
        deliverables:
          "select count(*) from cards.cards c join cards.box_cards x using (card_id) where c.type = 'task.deliverable' and c.metadata ->> 'history' is null",
        'task events': "select count(*) from state.events where kind = 'task' and payload ->> 'history' is null",
        // Dispatched, running and idle.
        'state events':
          "select count(*) / 3 as count from state.events where kind = 'state' and payload ->> 'history' is null",
        edges: "select count(*) from state.execution_edges where primitive = 'enqueue' and correlation_id is null",
      }
      for (const [what, text] of Object.entries(rows)) {
        const found = await count(text)
        if (found !== total) throw new Error(`${total} turns left ${found} ${what}`)
      }
    },
    async close() {
      await stopWorker()
      await close()
    },
  }
}

async function open(databaseUrl: string) {
  const db = await openDatabase({ url: databaseUrl, poolSize: 8 })
  const bell = inProcessBell(notifyBell({ url: databaseUrl, log: quiet }), systemRandom)
  const kernel = openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) })
  const close = async (): Promise<void> => {
    await bell.close()
    await db.close()
  }
  return { kernel, bell, close }
}
