/** Chance from a seed: the same seed gives the same numbers. What the machine makes of them is its own affair. */
export interface Chance {
  /** In [0, 1). */
  next(): number
  /** A whole number in [0, max). */
  below(max: number): number
  pick<T>(list: readonly T[]): T
}

/** Mulberry32: small, and good enough for choosing what to break next. */
export function chanceOf(seed: number): Chance {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (max: number) => Math.floor(next() * max)
  return { next, below, pick: (list) => list[below(list.length)]! }
}
