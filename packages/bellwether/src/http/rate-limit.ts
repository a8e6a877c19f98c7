/** Rate limits: one token bucket per name, in a bounded map. Pure: the caller passes the time. */
export interface Rate {
  readonly perSecond: number
  /** How many requests are allowed at once after a pause. */
  readonly burst: number
}

export interface Buckets {
  /** Milliseconds to wait; 0: the request is allowed. */
  take(name: string, nowMs: number): number
  readonly size: number
}

interface Bucket {
  tokens: number
  atMs: number
}

// A few megabytes. A dropped name starts with a full bucket, which takes this many other names to exploit.
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
      // Moves the name to the end: the first name in the map is the least recently used.
      buckets.delete(name)
      buckets.set(name, bucket)
      if (buckets.size > namesMax) buckets.delete(buckets.keys().next().value!)
      if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) * 1_000) / perSecond)
      bucket.tokens -= 1
      return 0
    },
  }
}
