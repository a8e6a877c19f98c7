/** Reads batches and their tasks. Reads only, bounded. */
import type { BatchLine, BatchRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import { pageBytesMax } from './cards.js'

/** Batches that are not settled yet; a settled batch can be read by its id. */
export async function listBatches(
  db: Queryable,
  projectId: string,
  after: string,
  limit: number,
): Promise<{ batches: BatchLine[]; cursor: string | null }> {
  const batches = await db.query<BatchLine>({
    name: 'bw_list_batches',
    text: `select batch_id, status, task_count, open_count, done_count, failed_count, deadline, created_at, ended_at,
        parent_agent_turn_id, tool_call_id
      from state.batches where settled_at is null and project_id = $1 and batch_id > $2 order by batch_id limit $3`,
    values: [projectId, after, limit],
  })
  return { batches, cursor: batches.length === limit ? batches.at(-1)!.batch_id : null }
}

/** One batch with its tasks, in order. Undefined: the project has no such batch. */
export async function readBatch(db: Queryable, projectId: string, batchId: string): Promise<BatchRow | undefined> {
  const [batch] = await db.query<Omit<BatchRow, 'tasks'>>({
    name: 'bw_read_batch',
    text: `select batch_id, project_id, status, task_count, open_count, done_count, failed_count, deadline, fail_fast,
        channel_id, traceparent, recursion_depth, parent_agent_id, parent_agent_turn_id, parent_turn_epoch,
        parent_step_id, tool_call_id, created_at, ended_at, settled_at
      from state.batches where batch_id = $1 and project_id = $2`,
    values: [batchId, projectId],
  })
  if (batch === undefined) return undefined
  const tasks = await db.query<BatchRow['tasks'][number]>({
    name: 'bw_read_batch_tasks',
    text: `select position, target_strategy, target_ref, agent_id, agent_turn_id, status, tries, outcome, error,
        deliverable_card_id,
        case when before < ${pageBytesMax} then content end as content,
        coalesce(before >= ${pageBytesMax}, false) as content_truncated
      from (select t.*, c.content,
        sum(octet_length(c.content::text)) over (order by t.position) - octet_length(c.content::text) as before
        from state.batch_tasks t left join cards.cards c on c.card_id = t.deliverable_card_id where t.batch_id = $1) t
      order by position`,
    values: [batchId],
  })
  return { ...batch, tasks }
}
