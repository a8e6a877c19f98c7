/**
 * Numbers for Prometheus. Always: a scrape is answered, with the last numbers where the database is away; the database is asked at most
 * once in a while, however many scrape; labels come from closed sets, or are bounded with the rest as `other`; no agent, turn or
 * tool is a label. What the fleet did is counted from the database by every process that is asked: scrape one of them, or take
 * the maximum.
 */
import type { Clock, Log } from '@bellwether/base'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { readGauges, type Gauges } from '../kernel/reads/gauges.js'
import type { BellStatus } from '../ports/bell/ring.js'
import type { Queryable } from '../ports/database/database.js'
import { openFleetCounts, type Counted, type FleetCounts } from './fleet-counts.js'
import { withTimeout } from '../ports/retry.js'

export interface MetricsOptions {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  readonly bell?: () => BellStatus & { readonly kind: string }
  /** Of a process that runs turns. */
  readonly worker?: () => { readonly target: string; readonly running: number; readonly concurrency: number }
}

export interface Metrics {
  /** The page at /metrics. Never throws because of the database. */
  text(): Promise<string>
  readonly contentType: string
}

// Prometheus scrapes every 15 s or so; several scrapers, or a hasty one, share a look.
const lookEveryMs = 2_000
// Less than a scrape's patience (10 s by default): late numbers help nobody.
const lookMs = 5_000
// Phases and kinds are a dozen; whoever makes more of them is counted, not named.
const labelsMax = 50
const stepBuckets = [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3_600]

export async function openMetrics(options: MetricsOptions): Promise<Metrics> {
  const { db, clock, log } = options
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name: `bellwether_${name}`, help, labelNames, registers })
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name: `bellwether_${name}`, help, labelNames, registers })

  const turns = counter('turns_total', 'Turns that ended, by outcome', 'outcome')
  const turnSeconds = counter('turn_seconds_total', 'Seconds from enqueue to end of the turns that ended', 'outcome')
  const stepSeconds = new Histogram({
    name: 'bellwether_step_seconds',
    help: 'How long steps took, by phase',
    labelNames: ['phase'],
    buckets: stepBuckets,
    registers,
  })
  const tokens = counter('tokens_total', 'Tokens that steps used', 'direction')
  const cost = counter('cost_usd_total', 'What steps cost, where prices are known')
  const tools = counter('tool_calls_total', 'Tool calls of turns that ended, by what came of them', 'status')
  const interventions = counter('interventions_total', 'What watchdogs did', 'kind')
  const depth = gauge('inbox_rows', 'Inbox rows that are not settled', 'status')
  const age = gauge('queue_age_seconds', 'Age of the oldest such row', 'status')
  const heads = gauge('agents_active', 'Agents with a turn, by its state', 'status')
  const batches = gauge('batches_open', 'Batches that are not settled')
  const horizon = gauge('outbox_horizon_age_seconds', 'How long a transaction has held back the readers of the outbox')
  const fleet = gauge('workers', 'Workers that are there', 'target')
  const slots = gauge('worker_slots', 'Turns that they can run at once', 'target', 'state')
  const up = gauge('database_up', 'Whether the last look at the database succeeded')
  for (const direction of ['input', 'output']) tokens.inc({ direction }, 0)
  for (const outcome of ['success', 'failed', 'timeout', 'canceled']) turns.inc({ outcome }, 0)

  const { bell, worker } = options
  const running = worker && gauge('worker_running', 'Turns that this worker runs', 'target')
  const concurrency = worker && gauge('worker_concurrency', 'Turns that this worker runs at most', 'target')
  const bellUp = bell && gauge('bell_connected', 'Whether the doorbell is connected', 'kind')
  const bellWell = bell && gauge('bell_healthy', 'Whether rings are known to arrive', 'kind')
  const rings = bell && gauge('bell_rings', 'Rings since the start, by what came of them', 'kind', 'result')

  const known = new Map<string, Set<string>>()
  const bounded = (set: string, label: string): string => {
    const names = known.get(set) ?? new Set<string>()
    known.set(set, names)
    if (names.size < labelsMax) names.add(label)
    return names.has(label) ? label : 'other'
  }

  function counted(facts: Counted): void {
    for (const { outcome, turns: count, seconds } of facts.outcomes) {
      turns.inc({ outcome }, count)
      turnSeconds.inc({ outcome }, Math.max(0, seconds))
    }
    for (const step of facts.steps) {
      stepSeconds.observe({ phase: bounded('phase', step.phase) }, Math.max(0, step.seconds))
      tokens.inc({ direction: 'input' }, Math.max(0, step.input_tokens))
      tokens.inc({ direction: 'output' }, Math.max(0, step.output_tokens))
      cost.inc(Math.max(0, step.cost_usd))
    }
    for (const { status, calls } of facts.tools) tools.inc({ status: bounded('status', status) }, calls)
    for (const { kind, times } of facts.interventions) interventions.inc({ kind: bounded('kind', kind) }, times)
  }

  function stands(standing: Gauges): void {
    for (const { status, rows, age_seconds: seconds } of standing.inbox) {
      depth.set({ status }, rows)
      age.set({ status }, Math.max(0, seconds))
    }
    for (const one of [heads, fleet, slots]) one.reset()
    for (const { status, agents } of standing.heads) heads.set({ status }, agents)
    for (const { worker_target: target, workers, slots: all, free } of standing.workers) {
      fleet.set({ target }, workers)
      slots.set({ target, state: 'free' }, free)
      slots.set({ target, state: 'taken' }, Math.max(0, all - free))
    }
    horizon.set(standing.horizonAgeSeconds)
    batches.set(standing.openBatches)
  }

  function ownFacts(): void {
    if (worker !== undefined) {
      const { target, ...facts } = worker()
      running?.set({ target }, facts.running)
      concurrency?.set({ target }, facts.concurrency)
    }
    if (bell === undefined) return
    const { kind, connected, healthy, sent, dropped, failed } = bell()
    bellUp?.set({ kind }, connected ? 1 : 0)
    bellWell?.set({ kind }, healthy ? 1 : 0)
    for (const [result, count] of Object.entries({ sent, dropped, failed })) rings?.set({ kind, result }, count)
  }

  let fleetCounts: FleetCounts | undefined
  let looking: Promise<void> | undefined
  let lookedMs = -Infinity
  async function look(): Promise<void> {
    try {
      fleetCounts ??= await openFleetCounts(db)
      stands(await readGauges(db))
      await fleetCounts.look(counted)
      up.set(1)
    } catch (error) {
      up.set(0)
      log.warn({ err: error }, 'the numbers for /metrics could not be read; the last ones are shown')
    } finally {
      lookedMs = clock.monotonicMs()
      looking = undefined
    }
  }

  // Counting starts now: what ends before the first scrape is counted by it.
  await look()
  return {
    contentType: registry.contentType,
    async text() {
      if (clock.monotonicMs() - lookedMs >= lookEveryMs) {
        looking ??= look()
        // A look that takes longer goes on; its numbers are there for the next scrape.
        await withTimeout(clock, lookMs, 'the look at the database', looking).catch(() => up.set(0))
      }
      ownFacts()
      return registry.metrics()
    },
  }
}
