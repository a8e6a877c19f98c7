/**
 * `npm run bench -- turns`: Bellwether and its peers after each other on one PostgreSQL with fsync on, in several rounds. Each figure is
 * based on counted rows and is the median of its rounds, because the load of other machines on the host changes within seconds. Compare
 * only ratios: absolute figures depend on the machine.
 */
import { systemClock } from '@bellwether/base'
import {
  markIdleAgents,
  reap,
  reapMax,
  retryDispatched,
  sweepQueued,
  wakePending,
} from '../src/kernel/verbs/watchdog/watchdog.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { ownCluster, type OwnCluster } from '../sim/cluster.js'
import { forkJoin } from './fork-join.js'
import { fillHistory } from './history.js'
import { machine, server } from './machine.js'
import type { Figures } from './cost.js'
import { Ledger, measure, type Scenario } from './measure.js'
import { fleetSize, ours, type Ours } from './ours.js'
import { installPeers, peerNames, peerVersions, runPeer, type PeerName } from './peers/peers.js'

export interface TurnsOptions {
  readonly onProgress: (line: string) => void
  /** Fewer jobs, less history: a quick check, not a result. */
  readonly quick: boolean
}

const scenarios = ['bulk', 'single', 'idle'] as const
const jobs: Record<Scenario, number> = { bulk: 40_000, single: 20_000, idle: 200 }
const judgedBy: Record<Scenario, string> = { bulk: 'overall_per_s', single: 'overall_per_s', idle: 'p50_ms' }
const durable = { fsync: 'on', synchronous_commit: 'on', shared_buffers: '256MB', max_wal_size: '4GB' }

type Results = Partial<Record<PeerName | 'bellwether', Partial<Record<Scenario, Figures>>>>

export async function benchTurns({ onProgress, quick }: TurnsOptions): Promise<object> {
  onProgress('installing the peers')
  await installPeers(onProgress)
  const cluster = await ownCluster(durable)
  try {
    const rounds = quick ? 1 : 3
    const results: Results = {}
    for (const scenario of scenarios) {
      const seen = new Map<PeerName | 'bellwether', Figures[]>()
      for (let round = 1; round <= rounds; round += 1) {
        for (const name of ['bellwether', ...peerNames] as const) {
          const figures = await contend(cluster, name, scenario)
          seen.set(name, [...(seen.get(name) ?? []), figures])
          onProgress(`${scenario}, round ${round} of ${rounds}: ${name} ${JSON.stringify(figures)}`)
        }
      }
      for (const [name, figures] of seen) {
        results[name] = { ...results[name], [scenario]: median(figures, judgedBy[scenario]) }
      }
    }
    const million = await withHistory(cluster, quick ? 100_000 : 1_000_000, rounds, onProgress)
    const forked = await forkJoin(await cluster.database(), quick ? 1 : 15)
    onProgress(`fork-join: ${JSON.stringify(forked)}`)
    const sweep = await sweepOfAgents(cluster, quick ? 10_000 : 100_000)
    onProgress(`sweep: ${JSON.stringify(sweep)}`)
    return {
      ran: { bench: 'turns', jobs, fleet: fleetSize, quick },
      ratios: ratios(results, million, forked),
      figures: { ...results, history: million, fork_join: forked, sweep },
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
  return measureOurs(databaseUrl, scenario)
}

function measureOurs(url: string, scenario: Scenario, prepare?: (contender: Ours) => Promise<void>) {
  const open = async (ledger: Ledger) => {
    const contender = await ours(url, ledger)
    await prepare?.(contender)
    return contender
  }
  return measure(scenario, url, open, jobs[scenario])
}

function ratios(
  results: Results,
  million: { readonly ratio: number },
  forked: { readonly ratio: number },
): Record<string, number | null> {
  const figure = (name: keyof Results, scenario: Scenario, key: string): number =>
    results[name]?.[scenario]?.[key] ?? Number.NaN
  const against = (name: PeerName, scenario: Scenario, key: string) =>
    round2(figure('bellwether', scenario, key) / figure(name, scenario, key))
  return {
    overall_vs_restate: against('restate', 'bulk', 'overall_per_s'),
    overall_vs_dbos: against('dbos', 'bulk', 'overall_per_s'),
    overall_vs_graphile: against('graphile', 'bulk', 'overall_per_s'),
    overall_vs_pgboss: against('pgboss', 'bulk', 'overall_per_s'),
    pg_cpu_vs_graphile: against('graphile', 'bulk', 'pg_cpu_us'),
    wal_vs_graphile: against('graphile', 'bulk', 'wal_bytes'),
    single_vs_graphile: against('graphile', 'single', 'overall_per_s'),
    single_vs_pgboss: against('pgboss', 'single', 'overall_per_s'),
    p50_vs_graphile: against('graphile', 'idle', 'p50_ms'),
    with_million_vs_empty: million.ratio,
    fork_join_vs_plain: forked.ratio,
  }
}

/** Bulk throughput with finished turns in the tables, against the same tables empty; measured here, in turn. */
async function withHistory(
  cluster: OwnCluster,
  turns: number,
  rounds: number,
  onProgress: (line: string) => void,
): Promise<{ turns: number; empty_per_s: number; full_per_s: number; ratio: number }> {
  const overall = async (url: string, fill: (contender: Ours) => Promise<void>): Promise<Figures> =>
    measureOurs(url, 'bulk', async (contender) => {
      await fill(contender)
      await contender.settle()
      // A checkpoint in the middle of one side, and not of the other, would be what is measured.
      await contender.kernel.db.query({ text: 'checkpoint' })
    })
  const empties: Figures[] = []
  const fulls: Figures[] = []
  for (let round = 1; round <= rounds; round += 1) {
    empties.push(await overall(await cluster.database(), async () => undefined))
    fulls.push(
      await overall(await cluster.database(), ({ kernel }) => fillHistory(kernel.db, turns, fleetSize, onProgress)),
    )
    onProgress(
      `history, round ${round} of ${rounds}: empty ${empties.at(-1)?.['overall_per_s']}, full ${fulls.at(-1)?.['overall_per_s']}`,
    )
  }
  const [empty, full] = [empties, fulls].map(
    (figures) => median(figures, 'overall_per_s')['overall_per_s'] ?? Number.NaN,
  )
  return { turns, empty_per_s: empty!, full_per_s: full!, ratio: round2(full! / empty!) }
}

/** The round in the middle, by the figure that counts. */
function median(rounds: readonly Figures[], key: string): Figures {
  const sorted = rounds.toSorted((a, b) => (a[key] ?? 0) - (b[key] ?? 0))
  return sorted[Math.floor((sorted.length - 1) / 2)]!
}

/** One guard step over many active agents of which one in a hundred is overdue. */
async function sweepOfAgents(cluster: OwnCluster, agents: number) {
  const url = await cluster.database()
  const contender = await ours(url, new Ledger(), { agents })
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
      dispatchedRetrySeconds: 10,
      dispatchedTimeoutSeconds: 30,
      activeReapSeconds: 300,
      suspendedReapSeconds: 300,
      maxQueueSeconds: 3_600,
      inboxProcessingTimeoutSeconds: 30,
      maxDeaths: 3,
    }
    // The rules of one guard step, by a guard that has watched all the time.
    const watch = { since: new Date(0), validUntil: new Date('9999-01-01'), clockSetBack: false }
    const step = async (): Promise<number> => {
      let ended = 0
      let looked = { unstarted: true, idle: true }
      for (let round = reapMax; round >= reapMax;) {
        const { verdicts, ...seen } = await reap(kernel.db, kernel.ids, settings, watch)
        looked = seen
        round = verdicts.length
        ended += verdicts.filter((verdict) => verdict.what === 'ended').length
      }
      await sweepQueued(kernel.db, 5)
      if (looked.unstarted) await retryDispatched(kernel.db, settings.dispatchedRetrySeconds)
      await wakePending(kernel.db, 5, 60)
      if (looked.idle) await markIdleAgents(kernel.db)
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

function round2(value: number): number {
  return Math.round(value * 100) / 100
}
