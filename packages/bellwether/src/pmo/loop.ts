/** Runs a PMO: guard, joiner, relay and retention, each in its own loop. Any number of PMOs may run at the same time. */
import type { Clock, Log } from '@bellwether/base'
import type { Kernel } from '../kernel/kernel.js'
import { targetsWithoutWorkers } from '../kernel/reads/gauges.js'
import { prune } from '../kernel/verbs/watchdog/watchdog.js'
import type { Bell } from '../ports/bell/bell.js'
import { loop } from '../ports/loop.js'
import type { Queryable } from '../ports/database/database.js'
import type { EventStream } from '../ports/stream/stream.js'
import { runJoiner } from './batches.js'
import { openGuard, type GuardSettings } from './guard.js'
import { openRelay } from './relay.js'

export interface PmoOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly stream: EventStream
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  readonly settings: GuardSettings & { readonly retentionDays: number; readonly relayPollMs: number }
}

const pruneEveryMs = 60_000
const targetsEveryMs = 15_000

export async function runPmo({ kernel, bell, stream, clock, log, signal, settings }: PmoOptions): Promise<void> {
  const guard = openGuard({ kernel, clock, settings })
  const relay = openRelay({ db: kernel.db, stream, log })
  const common = { clock, log, signal }
  await Promise.all([
    loop({ ...common, name: 'guard', steady: true, intervalMs: settings.watchdogIntervalSeconds * 1_000 }, () =>
      guard.step(),
    ),
    runJoiner({ ...common, kernel, bell }),
    loop({ ...common, name: 'relay', intervalMs: settings.relayPollMs }, () => relay.step()),
    loop({ ...common, name: 'targets', intervalMs: targetsEveryMs }, watchTargets(kernel.db, log)),
    loop({ ...common, name: 'retention', intervalMs: pruneEveryMs }, async () => {
      while (!signal.aborted && (await prune(kernel.db, settings.retentionDays)) > 0);
    }),
  ])
}

/** Logs once when turns of a target begin to wait for a worker, and once when none waits any more. */
export function watchTargets(db: Queryable, log: Log): () => Promise<void> {
  let before = new Set<string>()
  return async () => {
    const waiting = await targetsWithoutWorkers(db)
    for (const { worker_target: target, turns, waiting_seconds: seconds } of waiting)
      if (!before.has(target))
        log.error({ target, turns, waiting_seconds: Math.round(seconds) }, 'no worker for target')
    const now = new Set(waiting.map((one) => one.worker_target))
    for (const target of before) if (!now.has(target)) log.info({ target }, 'no turn of the target waits for a worker')
    before = now
  }
}
