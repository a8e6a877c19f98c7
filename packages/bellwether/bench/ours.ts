/**
 * Bellwether as a contender of the turns bench, through the public verbs: real enqueue, the real worker loop with a function agent, the
 * real notify bell, every trigger and constraint. A job is a turn of one of the agents; its handler does nothing.
 */
import { systemClock, systemRandom } from '@bellwether/base'
import { openKernel, type Kernel } from '../src/kernel/kernel.js'
import { migrate } from '../src/kernel/schema/migrate.js'
import { inProcessBell } from '../src/ports/bell/in-process.js'
import { notifyBell } from '../src/ports/bell/notify.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { uuidv7 } from '../src/ports/ids.js'
import type { TurnContext } from '../src/worker/agent.js'
import { openTranscriptWriter } from '../src/worker/transcript.js'
import { runWorker, type RunningWorker } from '../src/worker/loop.js'
import { pastIds } from './history.js'
import type { Contender, Ledger } from './measure.js'

export const fleetSize = 20_000
const projectId = 'bench'
const workerTarget = 'bench'
// What runs at once: enough for three batches of deliveries and a claim in flight at the same time.
const concurrency = 1_500
// The default of worker.transcript_max_bytes.
const maxBytes = 4_194_304

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

export interface FleetOptions {
  readonly agents?: number
  /** `random`: consecutive jobs belong to agents that are far from each other. */
  readonly order?: 'random'
  readonly statementTimeoutMs?: number
  /** What each turn adds to its transcript. Without it the worker stores none. */
  readonly say?: (turn: Pick<TurnContext, 'say'>) => void
  /** How many turns run at once. */
  readonly concurrent?: number
}

// Coprime to every number of agents that has no such factor: a walk over all agents in no visible order.
const stride = 982_451_653

export async function ours(
  databaseUrl: string,
  ledger: Ledger,
  { agents = fleetSize, order, say, concurrent = concurrency, ...timeouts }: FleetOptions = {},
): Promise<Ours> {
  const setUp = await open(databaseUrl, timeouts)
  await migrate(setUp.kernel.db)
  for (let from = 0; from < agents; from += 2_000) {
    const count = Math.min(2_000, agents - from)
    await setUp.kernel.putAgents(
      Array.from({ length: count }, (_, at) => ({ projectId, agentId: `a${from + at}`, workerTarget })),
    )
  }
  // Closing its sessions adds these rows to the statistics, so that a cost meter opened now does not count them.
  await setUp.close()
  const { kernel, bell, close } = await open(databaseUrl, timeouts)
  const { db } = kernel
  const agentOf = (job: number) => (order === 'random' ? (job * stride) % agents : job % agents)
  const turnOf = (job: number) => ({ projectId, agentId: `a${agentOf(job)}`, payload: { job } })
  const count = async (text: string): Promise<number> => {
    const [row] = await db.query<{ count: number }>({ text })
    return Number(row?.count)
  }
  const transcript = openTranscriptWriter({ kernel, clock: systemClock, log: quiet, random: systemRandom, maxBytes })
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
        settings: { ...workerSettings, concurrency: concurrent },
        loop: workerSettings,
        ...(say === undefined ? {} : { transcript }),
        agent: () => async (context) => {
          say?.(context)
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
      // Every row that a turn leaves, not one of them alone. Turns of the history do not count.
      const recent = (id: string) => `${id} not like '${pastIds}%'`
      const rows = {
        ended: "select count(*) from state.agent_inbox where outcome = 'success' and payload ? 'job'",
        deliverables: `select count(*) from cards.cards c join cards.box_cards x using (card_id) where c.type = 'task.deliverable' and ${recent('c.card_id')}`,
        'task events': `select count(*) from state.events where kind = 'task' and ${recent('agent_turn_id')}`,
        // Dispatched, running and idle.
        'state events': `select count(*) / 3 as count from state.events where kind = 'state' and ${recent('agent_turn_id')}`,
        edges: `select count(*) from state.execution_edges where primitive = 'enqueue' and ${recent('target_agent_turn_id')}`,
      }
      for (const [what, text] of Object.entries(rows)) {
        const found = await count(text)
        if (found !== total) throw new Error(`${total} turns left ${found} ${what}`)
      }
    },
    async close() {
      await stopWorker()
      await transcript.close()
      await close()
    },
  }
}

async function open(databaseUrl: string, timeouts: Pick<FleetOptions, 'statementTimeoutMs'>) {
  const db = await openDatabase({ url: databaseUrl, poolSize: 8, ...timeouts })
  const bell = inProcessBell(notifyBell({ url: databaseUrl, log: quiet }), systemRandom)
  const kernel = openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) })
  const close = async (): Promise<void> => {
    await bell.close()
    await db.close()
  }
  return { kernel, bell, close }
}
