/** The two watchdogs on a test kernel. `pass` moves the clock by one watchdog interval per step, as their loops do. */
import { openGuard, type Guard, type GuardSettings } from '../../src/pmo/guard.js'
import { signIn } from '../../src/kernel/verbs/roster.js'
import type { AgentFunction } from '../../src/worker/agent.js'
import { openWatchdog, type Watchdog } from '../../src/worker/watchdog.js'
import { openWorker, type Worker } from '../../src/worker/worker.js'
import { target, type TestKernel } from './kernel.js'
import { eventsOf } from './kernel-rows.js'
import { quietLog } from './quiet-log.js'
import { workerSettings } from './worker.js'

export const guardSettings: GuardSettings = {
  watchdogIntervalSeconds: 5,
  dispatchedRetrySeconds: 10,
  dispatchedTimeoutSeconds: 30,
  pendingWakeupSeconds: 5,
  pendingWakeupSkipSeconds: 60,
  activeReapSeconds: 300,
  suspendedReapSeconds: 300,
  maxQueueSeconds: 3600,
  inboxProcessingTimeoutSeconds: 30,
  maxDeaths: 3,
}

export const intervalSeconds = guardSettings.watchdogIntervalSeconds

/** The guard, without any worker: a target without live workers keeps its turns. */
export function guardAlone(t: TestKernel, changes: Partial<GuardSettings> = {}, kernel = t.kernel): Guard {
  return openGuard({ kernel, clock: t.clock, settings: { ...guardSettings, ...changes } })
}

/** The guard, with a live worker that has room and takes nothing: the rules against silence apply. */
export function guardOn(
  t: TestKernel,
  changes: Partial<GuardSettings> = {},
  workerTarget = target,
  kernel = t.kernel,
): Guard {
  const guard = guardAlone(t, changes, kernel)
  return {
    async step() {
      await signIn(t.db, `idle-${workerTarget}`, workerTarget, 1, 1)
      return guard.step()
    },
  }
}

export interface WatchingWorker extends Watchdog {
  readonly worker: Worker
}

/** A worker and its watchdog; the test steps both. Without an agent the worker has concurrency 0 and claims nothing. */
export function workerOn(
  t: TestKernel,
  options: { workerId?: string; agent?: AgentFunction; workerTarget?: string; concurrency?: number } = {},
): WatchingWorker {
  const { workerId = 'watcher', agent, workerTarget = target } = options
  const common = { kernel: t.kernel, clock: t.clock, log: quietLog, workerId, workerTarget, agent: () => agent }
  const settings = { ...workerSettings, concurrency: options.concurrency ?? (agent === undefined ? 0 : 16) }
  const worker = openWorker({ ...common, settings })
  const watchdog = openWatchdog({
    ...common,
    settings,
    worker,
    watchdog: {
      watchdogIntervalSeconds: intervalSeconds,
      inboxProcessingTimeoutSeconds: 30,
      maxDeaths: 3,
      resumeLeaseSeconds: 30,
    },
  })
  return { worker, step: () => watchdog.step() }
}

/** Moves the clock and steps the watchers once per interval. They step first once, so that the whole time lies in their watch window. */
export async function pass(
  t: TestKernel,
  seconds: number,
  ...watchers: readonly { step(): Promise<unknown> }[]
): Promise<void> {
  for (const watcher of watchers) await watcher.step()
  for (let left = seconds; left > 0; left -= intervalSeconds) {
    await t.advance(Math.min(left, intervalSeconds))
    for (const watcher of watchers) await watcher.step()
  }
}

export const tasksOf = async (t: TestKernel, agentTurnId: string) =>
  (await eventsOf(t, agentTurnId, 'task')).map((event) => event.payload)

export interface Intervention {
  readonly kind: string
  readonly reason: string
  readonly turn_epoch: number
  readonly before: Readonly<Record<string, unknown>>
  readonly after: Readonly<Record<string, unknown>>
  readonly created_at: Date
}

export const interventionsOf = (t: TestKernel, agentTurnId: string) =>
  t.all<Intervention>(
    'select * from state.interventions where agent_turn_id = $1 order by intervention_id',
    agentTurnId,
  )
