/** The only source of chance. */
export interface Random {
  /** A number in [0, 1). */
  next(): number
  bytes(count: number): Uint8Array
}

// Asking the system costs more than the bytes do: one question serves several hundred ids.
const poolSize = 4_096
let pool = new Uint8Array(0)
let used = 0

function bytes(count: number): Uint8Array {
  if (count > poolSize) return crypto.getRandomValues(new Uint8Array(count))
  if (used + count > pool.length) {
    // A new array, not a refilled one: whoever holds a part of the old one keeps it.
    pool = crypto.getRandomValues(new Uint8Array(poolSize))
    used = 0
  }
  used += count
  return pool.subarray(used - count, used)
}

export const systemRandom: Random = { next: () => Math.random(), bytes }

/**
 * Chance that can be repeated: 32 bits at a time, the same for the same seed on every machine (mulberry32). For plans and
 * schedules, never for secrets.
 */
export function seededBits(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
}
