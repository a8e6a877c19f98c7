/** Lists the words of ended turns for searches. Each call is one transaction of bounded size; calls of several PMOs exclude each other. */
import type { Queryable } from '../../../ports/database/database.js'

// Long turns have many rows between their ends. Reading them takes some tens of milliseconds.
const rowsMax = 20_000
/** Fewer turns wait: a search reads their cards. */
const turnsLeast = 128

/** How many rows of the outbox were read; 0: nothing is left; undefined: another PMO writes. */
export async function indexWords(db: Queryable, max = rowsMax, least = turnsLeast): Promise<number | undefined> {
  const [row] = await db.query<{ rows: number | null }>({
    name: 'bw_index_words',
    text: 'select state.index_words($1, $2) as rows',
    values: [max, least],
  })
  return row?.rows ?? undefined
}
