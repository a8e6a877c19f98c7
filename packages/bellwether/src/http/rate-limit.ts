/**
 * How often somebody may ask: a token bucket for each name, in a map that cannot grow without end. Pure but for the clock's
 * reading that is handed in.
 */
export interface Rate {
  readonly perSecond: number
  /** How many may come at once after a quiet time. */
  readonly burst: number
}

export interface Buckets {
  /** Milliseconds to wait, or 0: go on. */
  take(name: string, nowMs: number): number
  readonly size: number
}

interface Bucket {
  tokens: number
  atMs: number
}

// A few megabytes. Whoever is forgotten starts with a full bucket: worth it for nobody, since it takes this many others.
const namesMax = 20_000

export function makeBuckets({ perSecond, burst }: Rate): Buckets {
  const buckets = new Map<string, Bucket>()
  return {
    get size() {
      return buckets.size
    },
    take(name, nowMs) {
      const bucket = buckets.get(name) ?? { tokens: burst, atMs: nowMs }
      bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, nowMs - bucket.atMs) * perSecond) / 1_000)
      bucket.atMs = nowMs
      // The one asked for last stands last: the first in the map is the one longest not heard of.
      buckets.delete(name)
      buckets.set(name, bucket)
      if (buckets.size > namesMax) buckets.delete(buckets.keys().next().value!)
      if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) * 1_000) / perSecond)
      bucket.tokens -= 1
      return 0
    },
  }
}
