/**
 * Batches calls without timers: while one call is in flight, new items wait and share the next call. A single caller is not delayed; 16
 * concurrent callers share one round trip and one fsync.
 */
import { Retryable } from '@bellwether/protocol'

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export interface CoalesceOptions {
  /** The largest batch of one call. */
  readonly max: number
  /** How many calls may be in flight at once. */
  readonly inFlight: number
  /** How many items may wait; further callers get a Retryable error. */
  readonly queueMax: number
}

export function coalesce<Item, Result>(
  run: (items: readonly Item[]) => Promise<readonly Result[]>,
  { max, inFlight, queueMax }: CoalesceOptions,
): (item: Item) => Promise<Result> {
  let waiting: Waiting<Item, Result>[] = []
  let flying = 0

  async function fly(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await run(batch.map((one) => one.item))
      for (const [position, one] of batch.entries()) one.resolve(results[position]!)
    } catch (error) {
      // One caller's data must not fail the others: run each item alone, so that only the faulty one fails.
      if (batch.length === 1 || error instanceof Retryable) for (const one of batch) one.reject(error)
      else for (const one of batch) await fly([one])
    }
  }

  function next(): void {
    if (flying >= inFlight || waiting.length === 0) return
    const batch = waiting.slice(0, max)
    waiting = waiting.slice(max)
    flying += 1
    void fly(batch).finally(() => {
      flying -= 1
      next()
    })
  }

  return (item) =>
    new Promise((resolve, reject) => {
      if (waiting.length >= queueMax) {
        reject(new Retryable(`Too many calls are waiting (limit ${queueMax})`, { code: 'overloaded', afterMs: 1_000 }))
        return
      }
      waiting.push({ item, resolve, reject })
      // Callers of the same tick share the first batch too.
      if (waiting.length === 1) queueMicrotask(next)
      else if (waiting.length >= max) next()
    })
}
