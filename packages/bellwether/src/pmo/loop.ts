/**
 * Runs a PMO: guard, schedules, joiner, hosted tools, relay, trends, words and retention, each in its own loop. Any number of PMOs may run at
 * the same time.
 */
import type { Clock, Log } from '@bellwether/base'
import type { Kernel } from '../kernel/kernel.js'
import { ownsKey } from '../kernel/access/idempotency.js'
import { targetsWithoutWorkers, type TargetWithoutWorkers } from '../kernel/reads/gauges.js'
import { pruneTrends } from '../kernel/verbs/trends/trends.js'
import { indexWords } from '../kernel/verbs/words/words.js'
import { prune } from '../kernel/verbs/watchdog/watchdog.js'
import type { Bell } from '../ports/bell/bell.js'
import { loop } from '../ports/loop.js'
import type { EventStream } from '../ports/stream/stream.js'
import { runJoiner } from './batches.js'
import type { EventWebhook } from './event-webhook.js'
import type { Failures } from './failures.js'
import type { Notifier } from './notifier.js'
import { openGuard, type GuardSettings } from './guard.js'
import { runHostedTools, type PmoHandlers } from './hosted-tools.js'
import { openRelay } from './relay.js'
import { openScheduler, soonSeconds } from './schedules/scheduler.js'
import { openTrendCounter } from './trends.js'

export interface PmoOptions {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly stream: EventStream
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  readonly eventWebhook?: EventWebhook | undefined
  readonly notifier?: Notifier | undefined
  readonly failures?: Failures | undefined
  /** Called when turns of a target begin to wait for a worker, in one of the PMOs. */
  readonly onNoWorker: (target: TargetWithoutWorkers) => void
  /** The tools that the PMO hosts. */
  readonly handlers: PmoHandlers
  readonly settings: GuardSettings & {
    readonly retentionDays: number
    readonly trendRetentionDays: number
    readonly relayPollMs: number
  }
}

const pruneEveryMs = 60_000
// A page of the outbox costs about as much for one turn as for a hundred.
const countEveryMs = 15_000
const targetsEveryMs = 15_000
// A turn starts at most this long after its instant.
const scheduleEveryMs = 1_000
// Soon enough for a person; one step is six short statements.
const notifyEveryMs = 2_000
const failuresQuietMs = 8_000

export async function runPmo(options: PmoOptions): Promise<void> {
  const { kernel, bell, stream, clock, log, signal, settings, handlers, onNoWorker, eventWebhook } = options
  const { notifier, failures } = options
  const guard = openGuard({ kernel, clock, settings })
  const scheduler = openScheduler({ kernel, log })
  const relay = openRelay({ db: kernel.db, stream, log })
  const trends = openTrendCounter({ db: kernel.db, clock, log, signal })
  const common = { clock, log, signal }
  await Promise.all([
    loop({ ...common, name: 'guard', steady: true, intervalMs: settings.watchdogIntervalSeconds * 1_000 }, () =>
      guard.step(),
    ),
    loop({ ...common, name: 'schedules', intervalMs: scheduleEveryMs, quietMaxMs: (soonSeconds * 1_000) / 2 }, () =>
      scheduler.step(),
    ),
    runJoiner({ ...common, kernel, bell }),
    runHostedTools({ ...common, kernel, bell, handlers }),
    loop({ ...common, name: 'relay', intervalMs: settings.relayPollMs }, () => relay.step()),
    eventWebhook &&
      loop({ ...common, name: 'event webhook', intervalMs: settings.relayPollMs }, () => eventWebhook.step()),
    failures &&
      loop({ ...common, name: 'failures', intervalMs: notifyEveryMs, quietMaxMs: failuresQuietMs }, () =>
        failures.step(),
      ),
    notifier && loop({ ...common, name: 'notifier', intervalMs: notifyEveryMs }, () => notifier.step()),
    loop({ ...common, name: 'targets', intervalMs: targetsEveryMs }, watchTargets(kernel, clock, log, onNoWorker)),
    loop({ ...common, name: 'trends', intervalMs: countEveryMs }, () => trends.step()),
    loop({ ...common, name: 'words', intervalMs: countEveryMs }, async () => {
      while (!signal.aborted && ((await indexWords(kernel.db)) ?? 0) > 0);
    }),
    loop({ ...common, name: 'retention', intervalMs: pruneEveryMs }, async () => {
      while (!signal.aborted && (await prune(kernel.db, settings.retentionDays)) > 0);
      while (!signal.aborted && (await pruneTrends(kernel.db, settings.trendRetentionDays)) > 0);
    }),
  ])
}

// Longer than the time between the checks of two PMOs, so that they find each other's row.
const alertWindowMs = 600_000

/**
 * Reports once when turns of a target begin to wait for a worker, and once when none waits any more. Of several PMOs only the one that
 * owns the target's current and last window reports the beginning.
 */
export function watchTargets(
  { db, ids }: Pick<Kernel, 'db' | 'ids'>,
  clock: Pick<Clock, 'wallMs'>,
  log: Log,
  onNoWorker: PmoOptions['onNoWorker'],
): () => Promise<void> {
  const owner = ids.next()
  let before = new Set<string>()
  async function isReporter(target: string): Promise<boolean> {
    const window = Math.floor(clock.wallMs() / alertWindowMs)
    for (const number of [window - 1, window]) {
      const name = { projectId: '', scope: 'alert', key: `no_worker ${target} ${number}` }
      if (!(await ownsKey(db, ids, name, owner))) return false
    }
    return true
  }
  return async () => {
    const waiting = await targetsWithoutWorkers(db)
    for (const one of waiting) {
      if (before.has(one.worker_target)) continue
      if (await isReporter(one.worker_target)) onNoWorker(one)
      else log.info({ target: one.worker_target }, 'turns wait for a worker; another PMO sends the alert')
    }
    const now = new Set(waiting.map((one) => one.worker_target))
    for (const target of before) if (!now.has(target)) log.info({ target }, 'no turn of the target waits for a worker')
    before = now
  }
}
