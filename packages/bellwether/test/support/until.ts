/**
 * Polls for a condition that no event announces; after a timeout it fails with the name of the condition. Every condition has at
 * least two minutes: a busy machine is not a failure.
 */
import { poll, systemClock } from '@bellwether/base'

const leastMs = 120_000

export async function until<T>(what: string, check: () => Promise<T | undefined>, withinMs = leastMs): Promise<T> {
  const limitMs = Math.max(leastMs, withinMs)
  const result = await poll(systemClock, { everyMs: 20, withinMs: limitMs }, check)
  if (result === undefined) throw new Error(`Timed out after ${limitMs} ms: ${what}`)
  return result
}
