/** Waits until a session of this database waits for a lock. Databases of other tests share the cluster and do not count. */
import type { Queryable } from '../../src/ports/database/database.js'
import { until } from './until.js'

export async function untilLockWait(db: Queryable, what: string): Promise<void> {
  await until(what, async () => {
    const blocked = await db.query({
      text: "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    })
    return blocked.length > 0 || undefined
  })
}
