/** Builds and prints the report of chaos: the figures, the violations and, after a failure, how to repeat and examine the run. */
import { columns } from '../screen.js'
import type { Evidence, Judgement } from './judge.js'
import { percentile, recoveryTimes, tableSizes, turnDurations, type FaultAt, type TableSize } from './measurements.js'
import type { ViewCheck } from './view-check.js'

export interface ScheduledFault extends FaultAt {
  readonly detail: string
  seconds: number
}

export interface ChaosReport {
  readonly ok: boolean
  readonly seed: number
  readonly seconds: number
  readonly rounds: number
  readonly turns: number
  readonly by_outcome: Readonly<Record<string, number>>
  readonly tasks: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly interventions: Readonly<Record<string, number>>
  readonly taken_over: number
  readonly task_events_per_turn: number
  readonly stuck: number
  readonly lost: number
  readonly violations: readonly string[]
  readonly turn_ms: { readonly p50: number; readonly p95: number; readonly worst: number }
  readonly recovery_worst_ms: Readonly<Record<string, number>>
  readonly feed: Readonly<Record<string, number>>
  readonly view: Readonly<Record<string, number>>
  readonly processes_left: number
  /** The largest memory of one process, by role. */
  readonly mebibytes: Readonly<Record<string, number>>
  readonly cpu_seconds: Readonly<Record<string, number>>
  readonly cores: number
  readonly tables: readonly TableSize[]
  readonly schedule: readonly ScheduledFault[]
}

type Measured = 'ok' | 'violations' | 'processes_left' | 'mebibytes' | 'cpu_seconds' | 'cores'

export interface ReportOptions extends Evidence {
  readonly judgement: Judgement
  readonly schedule: readonly ScheduledFault[]
  readonly views: readonly ViewCheck[]
  readonly changes: number
  readonly rounds: number
  readonly seed: number
  readonly elapsedMs: () => number
}

export async function buildReport(options: ReportOptions): Promise<Omit<ChaosReport, Measured>> {
  const { context, db, start, feed, judgement, schedule, views } = options
  const { check, tasks } = judgement
  const durations = await turnDurations(db, start.turnId)
  const delays = feed.delays.map(({ delayMs }) => delayMs)
  return {
    seed: options.seed,
    seconds: Math.round(options.elapsedMs() / 1_000),
    rounds: options.rounds,
    turns: check.turns,
    by_outcome: check.outcomes,
    tasks,
    faults: context.faults,
    interventions: check.interventions,
    taken_over: check.takenOver,
    task_events_per_turn: check.turns === 0 ? 0 : check.taskEvents / check.turns,
    stuck: check.stuck.length,
    lost: check.lost.length,
    turn_ms: { p50: durations.p50Ms, p95: durations.p95Ms, worst: durations.worstMs },
    recovery_worst_ms: await recoveryTimes(db, schedule),
    feed: {
      ends: feed.ends.size,
      received_twice: [...feed.ends.values()].filter((times) => times > 1).length,
      p50_ms: percentile(delays, 0.5),
      p95_ms: percentile(delays, 0.95),
      beside_foreign_transactions_p95_ms: percentile(delaysBeside(options), 0.95),
      beside_foreign_transactions_worst_ms: Math.max(0, ...delaysBeside(options)),
    },
    view: {
      checks: views.length,
      entries: views.at(-1)?.entries ?? 0,
      differences: views.reduce((sum, { differences }) => sum + differences.length, 0),
      changes: options.changes,
    },
    tables: await tableSizes(db),
    schedule,
  }
}

// A fault of a process delays events for some time after its end. Shorter than most pauses between faults, so that some events remain
// to be measured.
const recoveryMs = 5_000

/** The delays of events that arrived while a foreign transaction was open and no process fault had an effect. */
function delaysBeside({ feed, schedule }: ReportOptions): number[] {
  const span = ({ at, seconds }: ScheduledFault, moreMs: number) => {
    const fromMs = Date.parse(at)
    return { fromMs, toMs: fromMs + seconds * 1_000 + moreMs }
  }
  const isForeign = ({ kind }: ScheduledFault) => kind.startsWith('foreign') || kind === 'snapshot held'
  const foreign = schedule.filter(isForeign).map((fault) => span(fault, 0))
  const others = schedule.filter((fault) => !isForeign(fault)).map((fault) => span(fault, recoveryMs))
  return feed.delays.flatMap(({ atMs, delayMs }) => {
    const isIn = ({ fromMs, toMs }: { fromMs: number; toMs: number }) => atMs - delayMs >= fromMs && atMs <= toMs
    const touches = ({ fromMs, toMs }: { fromMs: number; toMs: number }) => atMs >= fromMs && atMs - delayMs <= toMs
    return foreign.some(isIn) && !others.some(touches) ? [delayMs] : []
  })
}

interface Printing {
  /** Where the report is stored. */
  readonly file: string
  readonly logFile: string
  readonly write: (text: string) => void
}

export function printReport(report: ChaosReport, { file, logFile, write }: Printing): void {
  const list = (value: unknown): string =>
    typeof value === 'object' && value !== null
      ? Object.entries(value)
          .map(([name, one]) => `${name} ${typeof one === 'number' ? Math.round(one * 100) / 100 : String(one)}`)
          .join(', ') || 'none'
      : String(value)
  const { violations, schedule, tables, ...figures } = report
  const rows = Object.entries(figures).map(([name, value]) => [name.replaceAll('_', ' '), list(value)])
  rows.push([
    'tables',
    tables.map(({ table, mebibytes, dead }) => `${table} ${mebibytes} MiB (${dead} dead)`).join(', '),
  ])
  rows.push(['violations', String(violations.length)])
  write(`\n${columns(rows).join('\n')}\n\nreport: ${file}\n`)
  if (report.ok) return
  const faults = schedule.map(({ at, kind, detail, seconds }) => `  ${at}  ${kind}: ${detail} (${seconds} s)`)
  write(`schedule of seed ${report.seed}:\n${faults.join('\n')}\n`)
  write(
    `violations:\n${violations.map((violation) => `  ${violation}`).join('\n')}\nlog of the server and the workers: ${logFile}\n`,
  )
}
