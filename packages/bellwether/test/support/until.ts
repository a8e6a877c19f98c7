/** Waits for a condition that no event announces; fails with its name when the time is over. Never a plain sleep. */
import { poll } from '../../src/ports/database/poll.js'

export async function until<T>(what: string, ask: () => Promise<T | undefined>, withinMs = 15_000): Promise<T> {
  const answer = await poll({ everyMs: 20, withinMs }, ask)
  if (answer === undefined) throw new Error(`Not within ${withinMs} ms: ${what}`)
  return answer
}
