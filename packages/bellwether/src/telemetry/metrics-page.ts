/** The page of metrics.ts: its metrics, and what reads their values. */
import type { Clock, Log } from '@bellwether/base'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { readGauges, type Gauges } from '../kernel/reads/gauges.js'
import type { BellStatus } from '../ports/bell/ring.js'
import type { Queryable } from '../ports/database/database.js'
import { withTimeout } from '../ports/retry.js'
import type { Counted, FleetCounts } from './fleet-counts.js'
import { horizonAges } from './horizon.js'

export interface MetricsOptions {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  readonly bell?: () => BellStatus & { readonly kind: string }
  /** For a process that raises alerts: how many, by kind, and `unsent`. */
  readonly alerts?: (() => ReadonlyMap<string, number>) | undefined
  /** For a process with a board: how many writes did not get its lock in time. */
  readonly lockTimeouts?: (() => number) | undefined
  /** For a process that runs turns. */
  readonly worker?: () => { readonly target: string; readonly running: number; readonly concurrency: number }
}

export interface Metrics {
  /** The page at /metrics. Never throws because of the database. */
  text(): Promise<string>
}

/** The counts of the fleet since the start, as soon as the database answers. */
export type FleetCounter = () => Promise<FleetCounts>

// Prometheus usually scrapes every 15 s; several or fast scrapers share one read.
const readEveryMs = 2_000
// Shorter than the default timeout of a scrape (10 s).
const readTimeoutMs = 5_000
// There are about a dozen phases and kinds; more are counted as `other`.
const labelsMax = 50
const stepBuckets = [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3_600]

export function makeMetricsPage(options: MetricsOptions, fleetCounts: FleetCounter): Metrics {
  const { db, clock, log } = options
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name: `bellwether_${name}`, help, labelNames, registers })
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name: `bellwether_${name}`, help, labelNames, registers })

  const turns = counter('turns_total', 'Ended turns, by outcome', 'outcome')
  const turnSeconds = counter('turn_seconds_total', 'Seconds from enqueue to end of ended turns', 'outcome')
  const stepSeconds = new Histogram({
    name: 'bellwether_step_seconds',
    help: 'Duration of steps, by phase',
    labelNames: ['phase'],
    buckets: stepBuckets,
    registers,
  })
  const tokens = counter('tokens_total', 'Tokens used by steps', 'direction')
  const cost = counter('cost_usd_total', 'Cost of steps, if prices are known')
  const tools = counter('tool_calls_total', 'Tool calls of ended turns, by status', 'status')
  const interventions = counter('interventions_total', 'Interventions of watchdogs, by kind', 'kind')
  const depth = gauge('inbox_rows', 'Unsettled inbox rows, by status', 'status')
  const age = gauge('queue_age_seconds', 'Age of the oldest unsettled inbox row, by status', 'status')
  const heads = gauge('agents_active', 'Agents with a turn, by status', 'status')
  const batches = gauge('batches_open', 'Unsettled batches')
  const held = gauge('accounts_held', 'Accounts that reached a limit of their provider')
  const parked = gauge('turns_parked', 'Turns that wait for a held account')
  const schedules = gauge('schedules', 'Schedules, by state', 'state')
  const delay = gauge('schedule_delay_seconds', 'For how long the oldest due instant of a schedule has waited')
  const horizon = gauge('outbox_horizon_age_seconds', 'How long the first event that cannot be read yet has waited')
  const vacuumAge = gauge(
    'vacuum_horizon_age_seconds',
    'For how long an old transaction has kept dead rows from removal',
  )
  const fleet = gauge('workers', 'Live workers, by target', 'target')
  const slots = gauge('worker_slots', 'Turn slots of live workers, by target and state', 'target', 'state')
  const abandoned = gauge('turns_without_worker', 'Turns whose target has no live worker, by target', 'target')
  const up = gauge('database_up', 'Whether the last read from the database succeeded')
  for (const direction of ['input', 'output']) tokens.inc({ direction }, 0)
  for (const outcome of ['success', 'failed', 'timeout', 'canceled']) turns.inc({ outcome }, 0)

  const { bell, worker, alerts, lockTimeouts } = options
  const raised = alerts && counter('alerts_total', 'Alerts of this process, by kind', 'kind')
  const unsent = alerts && counter('alerts_unsent_total', 'Alerts of this process that the webhook did not get')
  const timeouts =
    lockTimeouts &&
    counter('board_lock_timeouts_total', "Writes of this process that did not get the board's lock in time")
  const running = worker && gauge('worker_running', 'Turns that this worker is running', 'target')
  const concurrency = worker && gauge('worker_concurrency', 'Maximum number of turns that this worker runs', 'target')
  const bellUp = bell && gauge('bell_connected', 'Whether the bell is connected', 'kind')
  const bellWell = bell && gauge('bell_healthy', 'Whether rings are confirmed to arrive', 'kind')
  const rings = bell && gauge('bell_rings', 'Rings since the start, by result', 'kind', 'result')

  const known = new Map<string, Set<string>>()
  const bounded = (set: string, label: string): string => {
    const names = known.get(set) ?? new Set<string>()
    known.set(set, names)
    if (names.size < labelsMax) names.add(label)
    return names.has(label) ? label : 'other'
  }

  function addCounts(counts: Counted): void {
    for (const { outcome, turns: count, seconds } of counts.outcomes) {
      turns.inc({ outcome }, count)
      turnSeconds.inc({ outcome }, Math.max(0, seconds))
    }
    for (const step of counts.steps) {
      stepSeconds.observe({ phase: bounded('phase', step.phase) }, Math.max(0, step.seconds))
      tokens.inc({ direction: 'input' }, Math.max(0, step.input_tokens))
      tokens.inc({ direction: 'output' }, Math.max(0, step.output_tokens))
      cost.inc(Math.max(0, step.cost_usd))
    }
    for (const { status, calls } of counts.tools) tools.inc({ status: bounded('status', status) }, calls)
    for (const { kind, times } of counts.interventions) interventions.inc({ kind: bounded('kind', kind) }, times)
  }

  function setGauges(gauges: Gauges): void {
    for (const { status, rows, age_seconds: seconds } of gauges.inbox) {
      depth.set({ status }, rows)
      age.set({ status }, Math.max(0, seconds))
    }
    for (const one of [heads, fleet, slots, abandoned]) one.reset()
    for (const { worker_target: target, turns: waiting } of gauges.withoutWorkers) abandoned.set({ target }, waiting)
    for (const { status, agents } of gauges.heads) heads.set({ status }, agents)
    for (const { worker_target: target, workers, slots: all, free } of gauges.workers) {
      fleet.set({ target }, workers)
      slots.set({ target, state: 'free' }, free)
      slots.set({ target, state: 'taken' }, Math.max(0, all - free))
    }
    horizon.set(gauges.horizonAgeSeconds)
    vacuumAge.set(ageOfHorizon(gauges.vacuum))
    batches.set(gauges.openBatches)
    held.set(gauges.heldAccounts)
    parked.set(gauges.parkedTurns)
    for (const one of gauges.schedules) schedules.set({ state: one.state }, one.schedules)
    delay.set(gauges.scheduleDelaySeconds)
  }

  /** The counts of this process, which are kept elsewhere. */
  function setProcessCounters(): void {
    for (const one of [raised, unsent, timeouts]) one?.reset()
    for (const [kind, count] of alerts?.() ?? []) {
      if (kind === 'unsent') unsent?.inc(count)
      else raised?.inc({ kind }, count)
    }
    if (lockTimeouts !== undefined) timeouts?.inc(lockTimeouts())
  }

  function setProcessGauges(): void {
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

  const ageOfHorizon = horizonAges(clock)
  let reading: Promise<void> | undefined
  let readAtMs = -Infinity
  async function read(): Promise<void> {
    try {
      setGauges(await readGauges(db))
      await (await fleetCounts()).countNew(addCounts)
      up.set(1)
    } catch (error) {
      up.set(0)
      log.warn({ err: error }, 'cannot read metrics from the database; showing the last values')
    } finally {
      readAtMs = clock.monotonicMs()
      reading = undefined
    }
  }

  return {
    async text() {
      if (clock.monotonicMs() - readAtMs >= readEveryMs) {
        reading ??= read()
        // A slow read continues and serves the next scrape.
        await withTimeout(clock, readTimeoutMs, 'reading metrics', reading).catch(() => up.set(0))
      }
      setProcessGauges()
      setProcessCounters()
      return registry.metrics()
    },
  }
}
