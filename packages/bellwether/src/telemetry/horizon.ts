/**
 * Measures how long the horizon of vacuum has stood still. PostgreSQL does not show every role when a transaction began, so this module
 * remembers when it saw which transaction ids; an age counts from the start of this process at the earliest.
 */
import type { Clock } from '@bellwether/base'
import type { VacuumHorizon } from '../kernel/reads/gauges.js'

// One day of one sample per 2 seconds, after thinning to every second one as often as necessary.
const samplesMax = 1_000

/** Returns the age of a horizon in seconds: the time since the first sample that has a transaction id above it. */
export function horizonAges(clock: Clock): (seen: VacuumHorizon) => number {
  let samples: { readonly next: bigint; readonly atMs: number }[] = []
  return ({ horizon, next }) => {
    const atMs = clock.monotonicMs()
    samples = [...samples.filter((sample) => sample.next > horizon), { next, atMs }]
    if (samples.length > samplesMax) samples = samples.filter((_, index) => index % 2 === 0)
    return next > horizon ? (atMs - samples[0]!.atMs) / 1_000 : 0
  }
}
