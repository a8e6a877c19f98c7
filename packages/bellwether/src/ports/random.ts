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
