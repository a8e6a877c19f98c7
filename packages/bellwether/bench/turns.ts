/**
 * `npm run bench -- turns`: us and the peers, on one PostgreSQL with fsync on, in one run, one after the other; each figure
 * rests on counted rows. Only the ratios mean anything: absolute figures move with the machine.
 */
import { systemClock } from '../src/ports/clock.js'
import { reap, retryDispatched, sweepMax, sweepQueued, wakePending } from '../src/kernel/watch.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { ownCluster, type OwnCluster } from '../sim/cluster.js'
import { fillHistory } from './history.js'
import { machine, server } from './machine.js'
import { Ledger, measure, type Figures, type Scenario } from './measure.js'
import { fleetSize, ours } from './ours.js'
import { installPeers, peerNames, peerVersions, runPeer, type PeerName } from './peers/peers.js'

export interface TurnsOptions {
  readonly onProgress: (line: string) => void
  /** Fewer jobs, less history: for a look, not for a verdict. */
  readonly quick: boolean
}

const scenarios = ['bulk', 'single', 'idle'] as const
const jobs: Record<Scenario, number> = { bulk: 40_000, single: 20_000, idle: 200 }
const durable = { fsync: 'on', synchronous_commit: 'on', shared_buffers: '256MB', max_wal_size: '4GB' }

type Results = Partial<Record<PeerName | 'bellwether', Partial<Record<Scenario, Figures>>>>

export async function benchTurns({ onProgress, quick }: TurnsOptions): Promise<object> {
  onProgress('installing the peers')
  await installPeers(onProgress)
  const cluster = await ownCluster(durable)
  try {
    const results: Results = {}
    for (const scenario of scenarios) {
      for (const name of ['bellwether', ...peerNames] as const) {
        const figures = await contend(cluster, name, scenario)
        results[name] = { ...results[name], [scenario]: figures }
        onProgress(`${scenario}: ${name} ${JSON.stringify(figures)}`)
      }
    }
    const million = await withHistory(cluster, quick ? 100_000 : 1_000_000, onProgress)
    const sweep = await sweepOfAgents(cluster, quick ? 10_000 : 100_000)
    onProgress(`sweep: ${JSON.stringify(sweep)}`)
    return {
      ran: { bench: 'turns', jobs, fleet: fleetSize, quick },
      ratios: ratios(results, million),
      figures: { ...results, history: million, sweep },
      machine: machine(),
      server: await server(cluster.url),
      versions: peerVersions(),
    }
  } finally {
    await cluster.remove()
  }
}

async function contend(cluster: OwnCluster, name: PeerName | 'bellwether', scenario: Scenario): Promise<Figures> {
  const databaseUrl = await cluster.database()
  if (name !== 'bellwether') return runPeer(name, scenario, { databaseUrl, n: jobs[scenario] })
  const ledger = new Ledger()
  const contender = await ours(databaseUrl, ledger)
  try {
    return await measure(scenario, contender, ledger, jobs[scenario])
  } finally {
    await contender.close()
  }
}

function ratios(results: Results, million: { readonly ratio: number }): Record<string, number | null> {
  const figure = (name: keyof Results, scenario: Scenario, key: string): number =>
    results[name]?.[scenario]?.[key] ?? Number.NaN
  const against = (name: PeerName, scenario: Scenario, key: string) =>
    round(figure('bellwether', scenario, key) / figure(name, scenario, key))
  return {
    overall_vs_restate: against('restate', 'bulk', 'overall_per_s'),
    overall_vs_dbos: against('dbos', 'bulk', 'overall_per_s'),
    overall_vs_graphile: against('graphile', 'bulk', 'overall_per_s'),
    overall_vs_pgboss: against('pgboss', 'bulk', 'overall_per_s'),
    single_vs_graphile: against('graphile', 'single', 'overall_per_s'),
    single_vs_pgboss: against('pgboss', 'single', 'overall_per_s'),
    p50_vs_graphile: against('graphile', 'idle', 'p50_ms'),
    with_million_vs_empty: million.ratio,
    // Fork-join comes with the full worker.
    fork_join_vs_plain: null,
  }
}

/** Bulk throughput with finished turns in the tables, against the same tables empty; both measured here, in turn. */
async function withHistory(cluster: OwnCluster, turns: number, onProgress: (line: string) => void) {
  const overall = async (history: number): Promise<number> => {
    const url = await cluster.database()
    const ledger = new Ledger()
    const contender = await ours(url, ledger)
    try {
      if (history > 0) await fillHistory(contender.kernel.db, history, fleetSize, onProgress)
      await contender.settle()
      const figures = await measure('bulk', contender, ledger, jobs.bulk)
      return figures['overall_per_s'] ?? Number.NaN
    } finally {
      await contender.close()
    }
  }
  const empty = await overall(0)
  const full = await overall(turns)
  return { turns, empty_per_s: Math.round(empty), full_per_s: Math.round(full), ratio: round(full / empty) }
}

/** One guard step over many active agents of which one in a hundred is overdue. */
async function sweepOfAgents(cluster: OwnCluster, agents: number) {
  const url = await cluster.database()
  const contender = await ours(url, new Ledger(), agents)
  const { kernel } = contender
  const db = await openDatabase({ url, poolSize: 1, statementTimeoutMs: 600_000 })
  try {
    const names = Array.from({ length: agents }, (_, at) => ({ projectId: 'bench', agentId: `a${at}` }))
    for (let from = 0; from < agents; from += 500) await kernel.enqueueMany(names.slice(from, from + 500))
    for (let claimed = 0; claimed < agents;) {
      claimed += (await kernel.claim({ workerTarget: 'bench', workerId: 'sweep', max: 1_000, resumeLeaseSeconds: 30 }))
        .turns.length
    }
    await contender.settle()
    const settings = {
      dispatchedTimeoutSeconds: 30,
      activeReapSeconds: 300,
      suspendedReapSeconds: 300,
      maxQueueSeconds: 3_600,
      inboxProcessingTimeoutSeconds: 30,
      maxAttempts: 3,
    }
    // The rules of one guard step, by a guard that has watched all the time.
    const watch = { since: new Date(0), validUntil: new Date('9999-01-01'), setBack: false }
    const step = async (): Promise<number> => {
      let ended = 0
      for (let round = sweepMax; round >= sweepMax;) {
        const verdicts = await reap(kernel.db, kernel.ids, settings, watch)
        round = verdicts.length
        ended += verdicts.filter((verdict) => verdict.what === 'ended').length
      }
      await sweepQueued(kernel.db, 5)
      await retryDispatched(kernel.db, 10)
      await wakePending(kernel.db, 5, 60)
      return ended
    }
    await step()
    await db.query({
      text: `update state.agent_state_head set updated_at = state.now() - interval '1 hour'
        where ('0' || substring(agent_id, 2))::int % 100 = 0`,
    })
    const startedMs = systemClock.monotonicMs()
    const ended = await step()
    const stepMs = systemClock.monotonicMs() - startedMs
    const idleMs = systemClock.monotonicMs()
    await step()
    return { agents, ended, step_ms: Math.round(stepMs), look_ms: Math.round(systemClock.monotonicMs() - idleMs) }
  } finally {
    await db.close()
    await contender.close()
  }
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
