/** Rate limits: one token bucket per name, in a bounded map. Pure: the caller passes the time. */
import { isIP } from 'node:net'

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
  const fullAfterMs = (burst * 1_000) / perSecond

  /** The least recently used names: a bucket that is full again is the same as none. Each call adds one name and removes up to two. */
  function forgetFull(nowMs: number): void {
    let looked = 0
    for (const [name, { atMs }] of buckets) {
      if ((looked += 1) > 2 || nowMs - atMs < fullAfterMs) return
      buckets.delete(name)
    }
  }

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
      forgetFull(nowMs)
      if (buckets.size > namesMax) buckets.delete(buckets.keys().next().value!)
      if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) * 1_000) / perSecond)
      bucket.tokens -= 1
      return 0
    },
  }
}

/** The name of a client in limits. A client with one IPv6 address has a network of 64 bits, and could use another address per request. */
export function clientAt(address: string): string {
  if (isIP(address) !== 6) return address
  const mapped = /^::ffff:(\d+(?:\.\d+){3})$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [front = [], back = []] = address.split('::').map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array.from({ length: Math.max(0, 8 - front.length - back.length) }, () => '0')
  const network = [...front, ...zeros, ...back].slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}
