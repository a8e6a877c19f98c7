/**
 * Workers outside this house have no watchdog of their own: the server keeps W2.1 to W2.3 for the targets that they claim from. It
 * gives silent workers' turns back, injects timeouts, sends unstarted commands again and frees expired resumes; it never ends a
 * turn. Any number of servers may watch the same target. Targets are remembered by the workers' own rows, so that a server that
 * was started anew goes on watching over what its predecessor's workers left.
 */
import type { Clock, Log } from '@bellwether/base'
import type { Kernel } from '../../kernel/kernel.js'
import { targetsOf } from '../../kernel/reads/work.js'
import { requeueExpiredResumeLedgers } from '../../kernel/verbs/watchdog/watchdog.js'
import { targetRules, watchdogStep, type TargetSettings } from '../../kernel/watchdog.js'
import { loop } from '../../ports/loop.js'

/** What the ids of these workers begin with. */
export const remotePrefix = 'http:'

export interface RemoteWatch {
  /** From now on this target is watched. */
  add(target: string): void
  step(): Promise<void>
  run(signal: AbortSignal): Promise<void>
}

export interface RemoteWatchOptions {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: Log
  readonly settings: TargetSettings
  /** Turns whose worker did not live to apply their results can be claimed again. */
  readonly onFreed: () => void
}

// Each costs four small queries an interval.
const targetsMax = 200

export function openRemoteWatch({ kernel, clock, log, settings, onFreed }: RemoteWatchOptions): RemoteWatch {
  const { db } = kernel
  const targets = new Set<string>()
  let remembered = false

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
    if (!remembered) {
      for (const target of await targetsOf(db, remotePrefix, targetsMax)) targets.add(target)
      remembered = true
    }
    await applyRules()
  }

  return {
    add(target) {
      // The one asked for last stands last. Beyond the bound the one longest not asked for is let go: the PMO still ends its turns.
      targets.delete(target)
      targets.add(target)
      if (targets.size <= targetsMax) return
      const [oldest] = targets
      targets.delete(oldest!)
      log.warn(
        { target: oldest, max: targetsMax },
        'too many worker targets are claimed from; one is no longer watched',
      )
    },
    step,
    run: (signal) =>
      loop(
        {
          name: 'the watchdog of workers outside',
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
