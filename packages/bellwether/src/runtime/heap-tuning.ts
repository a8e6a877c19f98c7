/**
 * Keeps the memory of an idle process small. V8 returns memory only when it collects, and collects only when it needs room, so a
 * process keeps the heap of its busiest moment. Three measures: the young generation stays small while modules load, because nearly
 * everything allocated then survives; V8 optimizes no functions until the process is ready, because most of its code until then runs
 * once (a fifth of the CPU time of a start); and an idle process collects garbage several times, because V8 drops unused bytecode only after
 * several collections. A busy process is left to V8.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Clock, Log } from '@bellwether/base'
import { loop } from '../ports/loop.js'

const smallFlag = '--semi-space-growth-factor=1'
/** For workers, which mostly wait for programs and models: half of V8's default young generation did not slow them down. */
export const workerHeapFlags = [smallFlag, '--max-semi-space-size=4'] as const

/** Sets the flags in the process, not on its command line, which the programs that it forks would inherit. */
export const tuneForStart = (): void => [smallFlag, '--no-opt'].forEach(setFlagsFromString)
export const tuneForWork = (): void => ['--semi-space-growth-factor=2', '--opt'].forEach(setFlagsFromString)

// A check is cheap; a collection pauses the process for about 30 ms.
const checkMs = 5_000
// The loops of an idle process use about 1 % of a core.
const idleShare = 0.1
const collections = 7

export function collectGarbageWhenIdle(options: {
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  let [left, before, beforeMs] = [collections, process.cpuUsage(), options.clock.monotonicMs()]
  return loop({ ...options, name: 'memory', intervalMs: checkMs, steady: true }, async () => {
    const nowMs = options.clock.monotonicMs()
    const { user, system } = process.cpuUsage(before)
    const share = (user + system) / 1_000 / Math.max(1, nowMs - beforeMs)
    ;[before, beforeMs] = [process.cpuUsage(), nowMs]
    if (share > idleShare) left = collections
    else if (left > 0) {
      left -= 1
      collect()
      // The collection itself does not count as work.
      before = process.cpuUsage()
    }
  })
}
