/**
 * `npm run bench -- history [--turns N] [--agents N]`: bulk turns of agents in random order, with finished turns stored, against the
 * same on a database without history and with the usual fleet. Judge by the CPU time per turn; one pass each, because the load takes
 * most of the time. Default: 1 million turns and 100,000 agents. 10 million turns and 1 million agents need about 26 GB on disk with the
 * WAL (2.2 kB per turn and 15 µs of CPU time per turn for the fill were measured with 100,000 turns).
 */
import pg from 'pg'
import type { Figures } from './cost.js'
import { fillHistory } from './history.js'
import { machine, server } from './machine.js'
import { measure } from './measure.js'
import { fleetSize, ours, type Ours } from './ours.js'
import { ownCluster } from '../sim/cluster.js'

export interface HistoryOptions {
  readonly onProgress: (line: string) => void
  readonly quick: boolean
  readonly turns?: number | undefined
  readonly agents?: number | undefined
}

const jobs = 40_000
const settings = { fsync: 'on', synchronous_commit: 'on', shared_buffers: '256MB', max_wal_size: '4GB' }

export async function benchHistory({ onProgress, quick, ...size }: HistoryOptions): Promise<object> {
  const turns = size.turns ?? (quick ? 100_000 : 1_000_000)
  const agents = size.agents ?? (quick ? fleetSize : 100_000)
  const cluster = await ownCluster(settings)
  try {
    const empty = await bulk(await cluster.database(), fleetSize, async () => undefined)
    onProgress(`empty: ${JSON.stringify(empty)}`)
    const full = await cluster.database()
    let fillMs = 0
    const filled = await bulk(full, agents, async ({ kernel }) => {
      const startedMs = performance.now()
      await fillHistory(kernel.db, turns, agents, onProgress)
      fillMs = performance.now() - startedMs
    })
    onProgress(`full: ${JSON.stringify(filled)}`)
    const ratio = (key: string) => Math.round((filled[key]! / empty[key]!) * 100) / 100
    return {
      ran: { bench: 'history', turns, agents, jobs, quick },
      ratios: { full_vs_empty: ratio('overall_per_s'), pg_cpu_vs_empty: ratio('pg_cpu_us') },
      figures: { empty, full: filled, fill_s: Math.round(fillMs / 1_000), bytes: await sizeOf(full) },
      machine: machine(),
      server: await server(cluster.url),
    }
  } finally {
    await cluster.remove()
  }
}

async function bulk(url: string, agents: number, fill: (contender: Ours) => Promise<void>): Promise<Figures> {
  const open = async (ledger: Parameters<typeof ours>[1]) => {
    const contender = await ours(url, ledger, { agents, order: 'random', statementTimeoutMs: longestMs })
    await fill(contender)
    await contender.settle()
    // A checkpoint during one side only would change the result.
    await contender.kernel.db.query({ text: 'checkpoint' })
    return contender
  }
  return measure('bulk', url, open, jobs, longestMs)
}

// A vacuum or a count of ten million rows on a busy machine.
const longestMs = 1_800_000

async function sizeOf(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<{ n: string }>('select pg_database_size(current_database()) as n')
    return Number(rows[0]!.n)
  } finally {
    await client.end()
  }
}
