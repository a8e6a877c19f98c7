/**
 * Runs the rules of a watchdog: one step observes the clocks once and runs every rule in order. A rule that fails does not stop the
 * others; the step throws all errors at its end. What each rule does is a verb; which rules run is decided by the PMO and the workers.
 */
import type { Clock } from '@bellwether/base'
import type { Kernel } from './kernel.js'
import { databaseNow } from './reads/database.js'
import type { Ringable } from './verdict.js'
import { expireWaits, reclaim, resendCommands } from './verbs/watchdog/watchdog.js'
import { openWatchWindow, type Watch } from './watch-window.js'

export interface WatchdogRule<Row extends Ringable> {
  /** Returns the verdicts to ring for. */
  readonly run: () => Promise<readonly Row[]>
  /** If a call returns this many verdicts, the step calls the rule again; absent: one call per step. */
  readonly fullAt?: number
}

export interface WatchdogOptions<Row extends Ringable> {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly intervalSeconds: number
  readonly rules: (watch: Watch) => readonly WatchdogRule<Row>[]
}

// A rule that is still full after this many calls continues in the next step, so that it does not starve the others.
const roundsMax = 20

/** Returns the step function of a watchdog; the step returns the verdicts of all rules. */
export function watchdogStep<Row extends Ringable>(options: WatchdogOptions<Row>): () => Promise<readonly Row[]> {
  const { kernel, clock, intervalSeconds, rules } = options
  const watchWindow = openWatchWindow(intervalSeconds)
  return async () => {
    const watch = watchWindow.observe(await databaseNow(kernel.db), clock.monotonicMs())
    const verdicts: Row[] = []
    const errors: unknown[] = []
    for (const rule of rules(watch)) {
      try {
        verdicts.push(...(await runRule(rule)))
      } catch (error) {
        errors.push(error)
      }
    }
    await kernel.ring(verdicts)
    if (errors.length > 0) throw new AggregateError(errors, `${errors.length} watchdog rules failed`)
    return verdicts
  }
}

async function runRule<Row extends Ringable>({ run, fullAt = Infinity }: WatchdogRule<Row>): Promise<Row[]> {
  const all: Row[] = []
  for (let round = 0; round < roundsMax; round += 1) {
    const verdicts = await run()
    all.push(...verdicts)
    if (verdicts.length < fullAt) break
  }
  return all
}

export interface TargetSettings {
  readonly watchdogIntervalSeconds: number
  readonly inboxProcessingTimeoutSeconds: number
  readonly maxDeaths: number
}

/** W2.1, W2.2 and hazard 11 for the turns of one worker target. These rules never end a turn. */
export function targetRules(
  { db, ids }: Kernel,
  target: string,
  settings: TargetSettings,
  watch: Watch,
): WatchdogRule<Ringable>[] {
  const { inboxProcessingTimeoutSeconds, maxDeaths, watchdogIntervalSeconds } = settings
  return [
    { run: () => reclaim(db, target, inboxProcessingTimeoutSeconds, maxDeaths, watch) },
    { run: () => expireWaits(db, ids, target, watch) },
    { run: () => resendCommands(db, target, watchdogIntervalSeconds) },
  ]
}
