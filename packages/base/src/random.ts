/** The only source of randomness: the system's, and a seeded generator for plans that must be repeatable. */
export interface Random {
  /** A number in [0, 1). */
  next(): number
  bytes(count: number): Uint8Array
}

// One call to the system costs more than its bytes: 4,096 bytes serve several hundred ids.
const poolSize = 4_096
let pool = new Uint8Array(0)
let used = 0

function bytes(count: number): Uint8Array {
  if (count > poolSize) return crypto.getRandomValues(new Uint8Array(count))
  if (used + count > pool.length) {
    // A new array instead of a refilled one: callers may still hold parts of the old one.
    pool = crypto.getRandomValues(new Uint8Array(poolSize))
    used = 0
  }
  used += count
  return pool.subarray(used - count, used)
}

export const systemRandom: Random = { next: () => Math.random(), bytes }

export interface SeededRandom {
  /** A whole number of 32 bits. */
  bits(): number
  /** A number in [0, 1). */
  next(): number
  /** A whole number in [0, bound). */
  below(bound: number): number
  /** One element of a list that is not empty. */
  pick<T>(list: readonly T[]): T
  /** A copy in random order. */
  shuffled<T>(list: readonly T[]): T[]
}

/** Mulberry32: the same seed gives the same numbers on every machine. For plans and schedules, never for secrets. */
export function seededRandom(seed: number): SeededRandom {
  let state = seed >>> 0
  const bits = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
  const next = () => bits() / 0x100000000
  const below = (bound: number) => Math.floor(next() * bound)
  return {
    bits,
    next,
    below,
    pick: (list) => list[below(list.length)]!,
    shuffled(list) {
      const copy = [...list]
      for (let last = copy.length - 1; last > 0; last -= 1) {
        const other = below(last + 1)
        ;[copy[last], copy[other]] = [copy[other]!, copy[last]!]
      }
      return copy
    },
  }
}
