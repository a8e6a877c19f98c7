/**
 * The watchdog of workers over HTTP, which have none of their own: the server applies W2.1 to W2.3 to the targets that they claim from.
 * It reclaims the turns of silent workers, injects timeouts, sends unstarted commands again and frees expired resumes; it never ends a
 * turn. Several servers may watch the same target. After a restart the server reads the targets from the rows of the workers.
 */
import type { Clock, Log } from '@bellwether/base'
import type { Kernel } from '../../kernel/kernel.js'
import { targetsOf } from '../../kernel/reads/work.js'
import { requeueExpiredResumeLedgers } from '../../kernel/verbs/watchdog/watchdog.js'
import { targetRules, watchdogStep, type TargetSettings } from '../../kernel/watchdog.js'
import { loop } from '../../ports/loop.js'

/** The prefix of these workers' ids. */
export const remotePrefix = 'http:'

export interface RemoteWatch {
  /** Starts to watch this target. */
  add(target: string): void
  step(): Promise<void>
  run(signal: AbortSignal): Promise<void>
}

export interface RemoteWatchOptions {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: Log
  readonly settings: TargetSettings
  /** Called when turns can be claimed again, because their worker did not apply their results in time. */
  readonly onFreed: () => void
}

// Each costs four small queries per interval.
const targetsMax = 200

export function openRemoteWatch({ kernel, clock, log, settings, onFreed }: RemoteWatchOptions): RemoteWatch {
  const { db } = kernel
  const targets = new Set<string>()
  let targetsRead = false

  async function requeueLedgers(): Promise<[]> {
    if ((await requeueExpiredResumeLedgers(db)) > 0) onFreed()
    return []
  }

  const applyRules = watchdogStep({
    kernel,
    clock,
    intervalSeconds: settings.watchdogIntervalSeconds,
    rules: (watch) => [
      ...[...targets].flatMap((target) => targetRules(kernel, target, settings, watch)),
      ...(targets.size > 0 ? [{ run: requeueLedgers }] : []),
    ],
  })

  async function step(): Promise<void> {
    if (!targetsRead) {
      for (const target of await targetsOf(db, remotePrefix, targetsMax)) targets.add(target)
      targetsRead = true
    }
    await applyRules()
  }

  return {
    add(target) {
      // The most recently used target is last. At the limit the least recently used one is dropped; the PMO still ends its turns.
      targets.delete(target)
      targets.add(target)
      if (targets.size <= targetsMax) return
      const [oldest] = targets
      targets.delete(oldest!)
      log.warn({ target: oldest, max: targetsMax }, 'too many worker targets; one is no longer watched')
    },
    step,
    run: (signal) =>
      loop(
        {
          name: 'watchdog of workers over HTTP',
          intervalMs: settings.watchdogIntervalSeconds * 1_000,
          clock,
          log,
          signal,
          steady: true,
        },
        step,
      ),
  }
}
