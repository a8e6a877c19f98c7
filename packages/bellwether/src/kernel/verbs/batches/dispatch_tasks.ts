/**
 * Dispatch of batch tasks: enqueues the turns of an open batch. Both the process that forked the batch and the PMO may call it; a repeated
 * call finds the turns already there.
 */
import type { Queryable } from '../../../ports/database/database.js'
import { callWith, type Verdict } from '../../verdict.js'

export type DispatchVerdict = Verdict<'all_leased' | 'leased' | 'put_off' | 'failed'>

// Keeps one call near 50 ms; the first children run while later ones are still being enqueued.
const chunkMax = 250
// The database runs one call while another commits.
const lanes = 2
// 1, 2, 4, 8 s: enough for a roster that is still loading.
const dispatchRetrySeconds = 1
const dispatchTriesMax = 5

/** Enqueues tasks of a batch. A task that cannot be enqueued is put off or fails; it does not block the others. */
export async function dispatchTasks(
  db: Queryable,
  batchId: string,
  positions: readonly number[],
  onDone: (verdicts: readonly DispatchVerdict[]) => Promise<unknown> = async () => undefined,
): Promise<DispatchVerdict[]> {
  const chunks: (readonly number[])[] = []
  for (let from = 0; from < positions.length; from += chunkMax) chunks.push(positions.slice(from, from + chunkMax))
  const done: DispatchVerdict[] = []
  const lane = async (): Promise<void> => {
    for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) {
      const verdicts = await dispatchChunk(db, batchId, chunk)
      done.push(...verdicts)
      // After each chunk, so that the first children start before the last are enqueued.
      await onDone(verdicts)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return done
}

async function dispatchChunk(db: Queryable, batchId: string, positions: readonly number[]): Promise<DispatchVerdict[]> {
  try {
    return await callWith<DispatchVerdict>(
      db,
      'dispatch_tasks',
      batchId,
      positions,
      dispatchRetrySeconds,
      dispatchTriesMax,
    )
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    // The batch was closed in between.
    if (code === 'BW006') return []
    // A lost connection is retried by the caller; an SQL error is caused by one task, and only that task is put off.
    if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code)) throw error
    if (positions.length === 1) {
      const reasons = ['dispatch_failed']
      return callWith(db, 'put_off_tasks', batchId, positions, reasons, dispatchRetrySeconds, dispatchTriesMax)
    }
    const all: DispatchVerdict[] = []
    for (const position of positions) all.push(...(await dispatchChunk(db, batchId, [position])))
    return all
  }
}

/** The positions of the tasks that are due to be enqueued, or enqueued again. */
export async function dueTasks(db: Queryable, batchId: string): Promise<number[]> {
  const rows = await db.query<{ position: number }>({
    name: 'bw_due_tasks',
    text: `select position from state.batch_tasks
      where batch_id = $1 and status = 'waiting' and next_try_at <= state.now() order by position`,
    values: [batchId],
  })
  return rows.map((row) => row.position)
}
