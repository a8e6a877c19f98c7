/**
 * Seeded random numbers for the simulation. The same seed gives the same numbers on every machine, and streams forked under different names are
 * independent, so that an extra ring does not change the schedule.
 */
import { type Random, seededRandom } from '@bellwether/base'

export interface Prng extends Random {
  /** A whole number in [0, bound). */
  below(bound: number): number
  chance(probability: number): boolean
  /** An independent stream; the same name gives the same stream. */
  fork(name: string): Prng
}

/** FNV-1a, to turn a stream's name into 32 bits. */
function digest(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/** 32 bits of state, enough for schedules, and it survives small seeds (0, 1, 2…) thanks to the mixing. */
export function prng(seed: number): Prng {
  const random = seededRandom(Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b))
  return {
    next: () => random.next(),
    bytes: (count) => Uint8Array.from({ length: count }, () => random.bits() >>> 24),
    below: (bound) => random.below(bound),
    chance: (probability) => random.next() < probability,
    fork: (name) => prng(Math.imul(seed, 0x01000193) ^ digest(name)),
  }
}
