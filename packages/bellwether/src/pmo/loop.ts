/** Runs a PMO: guard, joiner, hosted tools, relay and retention, each in its own loop. Any number of PMOs may run at the same time. */
import type { Clock, Log } from '@bellwether/base'
import type { Kernel } from '../kernel/kernel.js'
import { targetsWithoutWorkers, type TargetWithoutWorkers } from '../kernel/reads/gauges.js'
import { prune } from '../kernel/verbs/watchdog/watchdog.js'
import type { Bell } from '../ports/bell/bell.js'
import { loop } from '../ports/loop.js'
import type { Queryable } from '../ports/database/database.js'
import type { EventStream } from '../ports/stream/stream.js'
import { runJoiner } from './batches.js'
import type { EventWebhook } from './event-webhook.js'
import { openGuard, type GuardSettings } from './guard.js'
import { runHostedTools, type PmoHandlers } from './hosted-tools.js'
import { openRelay } from './relay.js'

export interface PmoOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly stream: EventStream
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  readonly eventWebhook?: EventWebhook | undefined
  /** Called once when turns of a target begin to wait for a worker. */
  readonly onNoWorker: (target: TargetWithoutWorkers) => void
  /** The tools that the PMO hosts. */
  readonly handlers: PmoHandlers
  readonly settings: GuardSettings & { readonly retentionDays: number; readonly relayPollMs: number }
}

const pruneEveryMs = 60_000
const targetsEveryMs = 15_000

export async function runPmo(options: PmoOptions): Promise<void> {
  const { kernel, bell, stream, clock, log, signal, settings, handlers, onNoWorker, eventWebhook } = options
  const guard = openGuard({ kernel, clock, settings })
  const relay = openRelay({ db: kernel.db, stream, log })
  const common = { clock, log, signal }
  await Promise.all([
    loop({ ...common, name: 'guard', steady: true, intervalMs: settings.watchdogIntervalSeconds * 1_000 }, () =>
      guard.step(),
    ),
    runJoiner({ ...common, kernel, bell }),
    runHostedTools({ ...common, kernel, bell, handlers }),
    loop({ ...common, name: 'relay', intervalMs: settings.relayPollMs }, () => relay.step()),
    eventWebhook &&
      loop({ ...common, name: 'event webhook', intervalMs: settings.relayPollMs }, () => eventWebhook.step()),
    loop({ ...common, name: 'targets', intervalMs: targetsEveryMs }, watchTargets(kernel.db, log, onNoWorker)),
    loop({ ...common, name: 'retention', intervalMs: pruneEveryMs }, async () => {
      while (!signal.aborted && (await prune(kernel.db, settings.retentionDays)) > 0);
    }),
  ])
}

/** Reports once when turns of a target begin to wait for a worker, and once when none waits any more. */
export function watchTargets(db: Queryable, log: Log, onNoWorker: PmoOptions['onNoWorker']): () => Promise<void> {
  let before = new Set<string>()
  return async () => {
    const waiting = await targetsWithoutWorkers(db)
    for (const one of waiting) if (!before.has(one.worker_target)) onNoWorker(one)
    const now = new Set(waiting.map((one) => one.worker_target))
    for (const target of before) if (!now.has(target)) log.info({ target }, 'no turn of the target waits for a worker')
    before = now
  }
}
