/**
 * Micro-batching without timers: while one call is in flight, further items wait together and go with the next one. An idle
 * caller pays nothing; sixteen busy ones share a round trip and an fsync.
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
  /** Items that may wait; beyond it callers are told to come back. */
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
      // One caller's data must not fail the others': whoever is left alone with the error owns it.
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
        reject(new Retryable('too many calls are waiting', { code: 'overloaded', afterMs: 1_000 }))
        return
      }
      waiting.push({ item, resolve, reject })
      // Callers of the same tick share the first batch too.
      if (waiting.length === 1) queueMicrotask(next)
      else if (waiting.length >= max) next()
    })
}
