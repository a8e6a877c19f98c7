/** Chance from a seed: the same seed gives the same numbers. What the machine makes of them is its own affair. */
import { seededBits } from '../../src/ports/random.js'

export interface Chance {
  /** In [0, 1). */
  next(): number
  /** A whole number in [0, max). */
  below(max: number): number
  pick<T>(list: readonly T[]): T
}

export function chanceOf(seed: number): Chance {
  const bits = seededBits(seed)
  const next = () => bits() / 4_294_967_296
  const below = (max: number) => Math.floor(next() * max)
  return { next, below, pick: (list) => list[below(list.length)]! }
}
