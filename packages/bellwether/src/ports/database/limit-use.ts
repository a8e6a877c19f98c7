/**
 * A database that uses at most some of the connections of a pool at once, so that the requests of clients leave the others to the loops
 * of the process. Calls wait in their order. A call that waited too long is refused when its turn comes, as by the pool itself.
 */
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Database } from './database.js'

interface Waiting {
  readonly sinceMs: number
  readonly start: () => void
  readonly refuse: (error: Error) => void
}

// As long as the pool waits for a connection.
const waitMaxMs = 10_000

export function limitUse(db: Database, max: number, clock: Pick<Clock, 'monotonicMs'>): Database {
  const queue: Waiting[] = []
  let used = 0

  function enter(): Promise<void> | undefined {
    if (used < max) return void (used += 1)
    return new Promise((start, refuse) => queue.push({ sinceMs: clock.monotonicMs(), start, refuse }))
  }

  function leave(): void {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (clock.monotonicMs() - next.sinceMs <= waitMaxMs) return next.start()
      next.refuse(new Retryable('Too many requests wait for the database', { code: 'database_busy', afterMs: 1_000 }))
    }
    used -= 1
  }

  async function within<T>(run: () => Promise<T>): Promise<T> {
    await enter()
    try {
      return await run()
    } finally {
      leave()
    }
  }

  return {
    query: (statement) => within(() => db.query(statement)),
    transaction: (run) => within(() => db.transaction(run)),
    close: () => db.close(),
  }
}
