/**
 * `npm run bench -- bells`: what one ring costs PostgreSQL with 1, 50 and 200 listening workers, once with a LISTEN connection per
 * worker and once with one per machine. First each ring is awaited before the next, so that each is a transaction; then 200 rings at a
 * time, to all workers in turn, as under load; then a burst for one target shows how many rings become one. CPU and counts, because they
 * hold on a busy machine.
 */
import { defined, systemClock, type Log } from '@bellwether/base'
import pg from 'pg'
import { doorbellPath } from '../src/ports/bell/doorbell.js'
import { notifyBell } from '../src/ports/bell/notify.js'
import type { MonitoredBell } from '../src/ports/bell/ring.js'
import { ownCluster, type OwnCluster } from '../sim/cluster.js'
import { openCostMeter, type Figures } from './cost.js'
import { machine, server } from './machine.js'

export interface BellsOptions {
  readonly onProgress: (line: string) => void
  readonly quick: boolean
}

const workerCounts = [1, 50, 200] as const
const settings = { max_connections: '500', shared_buffers: '128MB' }
const quiet: Log = { info: () => undefined, warn: () => undefined, error: () => undefined }
const burst = 1_000
// Rings that arrive together under load.
const together = 200

export async function benchBells({ onProgress, quick }: BellsOptions): Promise<object> {
  const cluster = await ownCluster(settings)
  try {
    const figures: Record<string, Record<string, Figures>> = {}
    for (const sharing of ['alone', 'shared'] as const) {
      for (const workers of workerCounts) {
        const measured = await ringAll(cluster, workers, sharing === 'shared', quick ? 400 : 2_000)
        figures[sharing] = { ...figures[sharing], [`${workers}_workers`]: measured }
        onProgress(`${sharing}, ${workers} workers: ${JSON.stringify(measured)}`)
      }
    }
    return { ran: { bench: 'bells', quick, burst }, figures, machine: machine(), server: await server(cluster.url) }
  } finally {
    await cluster.remove()
  }
}

/** Every worker is one bell, as in a process of its own, and has its own target; the rings go to one target after the other. */
async function ringAll(cluster: OwnCluster, workers: number, shared: boolean, rings: number): Promise<Figures> {
  const url = await cluster.database()
  const sharedAt = shared ? doorbellPath(url) : undefined
  const subject = (worker: number) => `bw.v1.bench.public.cmd.agent.w${worker}.wakeup`
  const ears: MonitoredBell[] = []
  const heard: (() => void)[] = []
  const counts = Array.from({ length: workers }, () => 0)
  for (let worker = 0; worker < workers; worker += 1) {
    const bell = notifyBell({ url, log: quiet, ...defined({ sharedAt }), probeEveryMs: 600_000 })
    ears.push(bell)
    await bell.listen(subject(worker), (ring) => {
      if (ring === undefined) return
      counts[worker]! += 1
      heard[worker]?.()
    })
  }
  const sender = notifyBell({ url, log: quiet })
  // The first ring opens the connection, and the probes of the listeners end.
  await sender.ring([{ subject: 'bw.v1.bench.start', payload: {} }])
  await systemClock.sleep(1_000)
  const meter = await openCostMeter(url)
  try {
    /** Rings `together` workers at a time and waits until they have heard it. */
    const measure = async (count: number) => {
      const spent = await meter.start()
      for (let n = 0; n < rings; n += count) {
        const arrived = Array.from({ length: Math.min(count, workers) }, (_, at) => {
          const worker = (n + at) % workers
          return new Promise<void>((resolve) => (heard[worker] = resolve))
        })
        const sent = Array.from({ length: count }, (_, at) =>
          sender.ring([{ subject: subject((n + at) % workers), payload: { n } }]),
        )
        await Promise.all([...sent, ...arrived])
      }
      return spent(rings)
    }
    const single = await measure(1)
    const loaded = await measure(together)
    const before = sender.status()
    await Promise.all(Array.from({ length: burst }, (_, n) => sender.ring([{ subject: subject(0), payload: { n } }])))
    const after = sender.status()
    return {
      n: rings,
      pg_cpu_us_per_single_ring: single['pg_cpu_us']!,
      pg_cpu_us_per_ring: loaded['pg_cpu_us']!,
      node_cpu_us_per_single_ring: single['own_cpu_us']!,
      node_cpu_us_per_ring: loaded['own_cpu_us']!,
      listening_connections: await listenersOf(url),
      messages_per_burst: after.sent - before.sent,
    }
  } finally {
    await meter.close()
    await Promise.all([sender, ...ears].map((bell) => bell.close()))
  }
}

async function listenersOf(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ n: string }>(
    "select count(*) as n from pg_stat_activity where datname = current_database() and application_name = 'bellwether bell listener'",
  )
  await client.end()
  return Number(rows[0]!.n)
}
