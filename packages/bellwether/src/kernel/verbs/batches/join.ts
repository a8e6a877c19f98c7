/**
 * Join: what became of a batch's tasks, in their order, and the one answer that its parent gets. Always: the answer of a closed
 * batch does not change, so that it may be given by anybody, any number of times. Who looks when is the PMO's business.
 */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { call, type Verdict } from '../../verdict.js'
import { sweepMax } from '../watchdog/watchdog.js'

export interface TaskRow {
  readonly position: number
  readonly target_strategy: string
  readonly target_ref: string
  readonly agent_id: string | null
  readonly agent_turn_id: string
  /** waiting to be put in line, given to its agent, stopping, done, failed, canceled: see state.batch_tasks. */
  readonly status: string
  readonly attempts: number
  readonly outcome: string | null
  readonly error: string | null
  readonly deliverable_card_id: string | null
  readonly content: unknown
}

export interface Batch {
  readonly batch_id: string
  readonly project_id: string
  readonly status: 'open' | 'done' | 'failed' | 'canceled' | 'timeout'
  readonly fail_fast: boolean
  readonly task_count: number
  readonly open_count: number
  readonly done_count: number
  readonly failed_count: number
  readonly deadline: Date | null
  readonly created_at: Date
  readonly ended_at: Date | null
  readonly settled_at: Date | null
  readonly parent_agent_turn_id: string | null
  readonly parent_turn_epoch: number | null
  readonly tool_call_id: string | null
  readonly tasks: readonly TaskRow[]
}

export async function readBatch(db: Queryable, projectId: string, batchId: string): Promise<Batch | undefined> {
  const [batch] = await db.query<Omit<Batch, 'tasks'>>({
    name: 'bw_read_batch',
    text: 'select * from state.batches where batch_id = $1 and project_id = $2',
    values: [batchId, projectId],
  })
  if (batch === undefined) return undefined
  const tasks = await db.query<TaskRow>({
    name: 'bw_read_tasks',
    text: `select t.position, t.target_strategy, t.target_ref, t.agent_id, t.agent_turn_id, t.status, t.attempts, t.outcome, t.error,
        t.deliverable_card_id, c.content
      from state.batch_tasks t left join cards.cards c on c.card_id = t.deliverable_card_id
      where t.batch_id = $1 order by t.position`,
    values: [batchId],
  })
  return { ...batch, tasks }
}

/** Tells the parents of closed batches what became of them; answers whom to ring. */
export async function answerBatches(db: Queryable, ids: Ids, batchIds: readonly string[]): Promise<Verdict[]> {
  const items = batchIds.map((batchId) => ({ batch_id: batchId, inbox_id: ids.next(), card_id: ids.next() }))
  return call(db, 'answer_batches', items)
}

export interface Due {
  readonly what: 'answer' | 'stop' | 'dispatch' | 'look' | 'open' | 'settled'
  readonly batch_id: string
  readonly project_id: string
  readonly turns: readonly string[] | null
  readonly due_in_ms: number | null
}

// As many as one look can count in well under a second when each has a thousand tasks.
const batchesMax = 50

export async function collectBatches(db: Queryable, ids: Ids): Promise<Due[]> {
  return db.query<Due>({
    name: 'bw_collect_batches',
    text: 'select * from state.collect_batches($1)',
    values: [Array.from({ length: batchesMax }, () => ids.next())],
  })
}

export async function retireAgents(db: Queryable, batchIds: readonly string[]): Promise<void> {
  await db.query({ name: 'bw_retire_agents', text: 'select state.retire_agents($1)', values: [batchIds] })
}

/** One call for children that nobody needs any more. */
export function stopRows(ids: Ids, due: Due): object[] {
  return (due.turns ?? []).slice(0, sweepMax).map((agentTurnId) => ({
    project_id: due.project_id,
    agent_turn_id: agentTurnId,
    inbox_id: ids.next(),
    card_id: ids.next(),
    reason: 'its batch is over',
  }))
}
