/**
 * Polls for a condition that no event announces; after a timeout it fails with the name of the condition. Every condition has at
 * least two minutes: a busy machine is not a failure. The longer it waits, the less often it looks, because what it looks at (all processes,
 * an answer of a server) takes CPU time from what it waits for.
 */
import { systemClock } from '@bellwether/base'

const leastMs = 120_000
const oftenMs = 20
const seldomMs = 250

export async function until<T>(what: string, check: () => Promise<T | undefined>, withinMs = leastMs): Promise<T> {
  const limitMs = Math.max(leastMs, withinMs)
  const startMs = systemClock.monotonicMs()
  for (;;) {
    const result = await check()
    if (result !== undefined) return result
    const passedMs = systemClock.monotonicMs() - startMs
    if (passedMs >= limitMs) throw new Error(`Timed out after ${limitMs} ms: ${what}`)
    await systemClock.sleep(Math.min(seldomMs, Math.max(oftenMs, passedMs / 10)))
  }
}
