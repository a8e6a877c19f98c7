/** The newest events of the stream, so that an answer which was on its way meanwhile does not put the clock back. Bounded. */
import type { LiveEvent } from '../api/types.js'

// Ten seconds of a busy fleet: longer than any question takes.
const keptMax = 5_000

let kept: LiveEvent[] = []
let dropped = 0

export const recent = {
  add(events: readonly LiveEvent[]): void {
    kept.push(...events)
    const over = kept.length - keptMax
    if (over <= 0) return
    dropped += over
    kept = kept.slice(over)
  },
  mark: (): number => dropped + kept.length,
  since: (mark: number): readonly LiveEvent[] => kept.slice(Math.max(0, mark - dropped)),
}
