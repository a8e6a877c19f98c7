/** Polls for a condition that no event announces; after a timeout it fails with the name of the condition. */
import { poll, systemClock } from '@bellwether/base'

export async function until<T>(what: string, check: () => Promise<T | undefined>, withinMs = 15_000): Promise<T> {
  const result = await poll(systemClock, { everyMs: 20, withinMs }, check)
  if (result === undefined) throw new Error(`Timed out after ${withinMs} ms: ${what}`)
  return result
}
