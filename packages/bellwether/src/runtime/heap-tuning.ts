/**
 * Memory of a process that has nothing to do. V8 gives room back when it collects, and collects when it needs room: a process that
 * was busy, be it with its own start, keeps for good what it needed then. So the nursery is kept small while programs load, where
 * nearly everything stays, and once a process has become idle its garbage is collected, a few times, because code that is not used
 * any more goes with the sixth. A busy process is left to V8.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Clock, Log } from '@bellwether/base'
import { loop } from '../ports/loop.js'

const smallFlag = '--semi-space-growth-factor=1'
const usualFlag = '--semi-space-growth-factor=2'
/** For children that wait for programs and models most of the time: half of V8's usual nursery did not slow them down. */
export const workerFlags = [smallFlag, '--max-semi-space-size=4'] as const

export const keepNurserySmall = (): void => setFlagsFromString(smallFlag)
export const letNurseryGrow = (): void => setFlagsFromString(usualFlag)

// Looks are cheap; a collection stops the process for some 30 ms.
const lookMs = 5_000
// The loops of an idle house need about a hundredth of a core.
const idleShare = 0.1
const collections = 7

export function tidyWhenIdle(options: { readonly clock: Clock; readonly log: Log; readonly signal: AbortSignal }) {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  let [left, before, beforeMs] = [collections, process.cpuUsage(), options.clock.monotonicMs()]
  return loop({ ...options, name: 'memory', intervalMs: lookMs, steady: true }, async () => {
    const nowMs = options.clock.monotonicMs()
    const { user, system } = process.cpuUsage(before)
    const share = (user + system) / 1_000 / Math.max(1, nowMs - beforeMs)
    ;[before, beforeMs] = [process.cpuUsage(), nowMs]
    if (share > idleShare) left = collections
    else if (left > 0) {
      left -= 1
      collect()
      // What it cost is not work.
      before = process.cpuUsage()
    }
  })
}
