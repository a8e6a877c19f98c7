/** The newest events of the stream, kept so that a response that was in flight cannot overwrite them. Bounded. */
import type { LiveEvent } from '../api/types.js'

// Ten seconds of a busy fleet, longer than any request takes.
const newestMax = 5_000

let newest: LiveEvent[] = []
let dropped = 0

export const recent = {
  add(events: readonly LiveEvent[]): void {
    newest.push(...events)
    const over = newest.length - newestMax
    if (over <= 0) return
    dropped += over
    newest = newest.slice(over)
  },
  mark: (): number => dropped + newest.length,
  since: (mark: number): readonly LiveEvent[] => newest.slice(Math.max(0, mark - dropped)),
}
