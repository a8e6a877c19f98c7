/** Runs a PMO: guard, joiner, relay and retention, each in its own loop. Any number of PMOs may run at the same time. */
import type { Clock, Log } from '@bellwether/base'
import type { Kernel } from '../kernel/kernel.js'
import { prune } from '../kernel/verbs/watchdog/watchdog.js'
import type { Bell } from '../ports/bell/bell.js'
import { loop } from '../ports/loop.js'
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
    loop({ ...common, name: 'retention', intervalMs: pruneEveryMs }, async () => {
      while (!signal.aborted && (await prune(kernel.db, settings.retentionDays)) > 0);
    }),
  ])
}
