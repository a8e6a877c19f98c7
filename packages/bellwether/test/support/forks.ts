/** Batches and budgets on a test kernel: turns that fork, a joiner that the test steps, and reads of the results. */
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { NewBatch, NewTask } from '../../src/kernel/verbs/batches/fork.js'
import { batchIdOfCall } from '../../src/kernel/verbs/batches/fork.js'
import type { BatchRow } from '@bellwether/protocol/http'
import { openJoiner } from '../../src/pmo/batches.js'
import { project, type TestKernel } from './kernel.js'

export const reuse = (targetRef: string, more: Partial<NewTask> = {}): NewTask => ({
  targetStrategy: 'reuse',
  targetRef,
  instruction: `do it, ${targetRef}`,
  ...more,
})

/** Suspends a running turn on a fork; returns the batch id. */
export async function forkFrom(
  t: TestKernel,
  turn: ClaimedTurn,
  toolCallId: string,
  batch: NewBatch | readonly NewTask[],
): Promise<string> {
  const newBatch = 'tasks' in batch ? batch : { tasks: batch }
  const calls = [{ toolCallId, toolName: 'fork_join', args: {}, batch: newBatch }]
  await t.kernel.suspend({ ...turn, stepId: `step-${toolCallId}`, calls }, 30)
  return batchIdOfCall(project, toolCallId)
}

export async function batchOf(t: TestKernel, batchId: string): Promise<BatchRow> {
  const batch = await t.kernel.readBatch(project, batchId)
  if (batch === undefined) throw new Error(`unknown batch ${batchId}`)
  return batch
}

/** Makes every unsettled batch due and steps the joiner. */
export async function join(t: TestKernel, steps = 1): Promise<void> {
  const joiner = openJoiner({ kernel: t.kernel })
  for (let step = 0; step < steps; step += 1) {
    await t.all('update state.batches set next_look_at = state.now() where settled_at is null')
    await joiner.step()
  }
}

interface ForkResult {
  readonly batch_id: string
  readonly status: string
  readonly tasks: readonly {
    readonly position: number
    readonly status: string
    readonly agent_id: string
    readonly error?: string
    readonly content?: unknown
    readonly deliverable_card_id?: string
  }[]
}

/** Resumes a parent and returns the result of its fork, as the parent's worker reads it. */
export async function forkResult(t: TestKernel, agentTurnId: string) {
  const [resumed] = (await t.claim()).filter((turn) => turn.agentTurnId === agentTurnId && turn.kind === 'resume')
  if (resumed === undefined) throw new Error('the parent was not resumed')
  const [result, ...more] = await t.kernel.readResults(agentTurnId)
  if (result === undefined || more.length > 0) throw new Error(`expected one result, got ${more.length + 1}`)
  await t.kernel.resume(resumed, 'worker-1')
  return { status: result.status, error: result.error, result: result.result as ForkResult }
}

export const receiptsOf = (t: TestKernel, toolCallId: string) =>
  t.all<{ status: string }>(
    "select status from state.agent_inbox where correlation_id = $1 and message_type in ('tool_result', 'timeout')",
    toolCallId,
  )

export const deliverAll = (t: TestKernel, turns: readonly ClaimedTurn[], status: 'success' | 'failed' = 'success') =>
  Promise.all(turns.map((turn) => t.kernel.deliver({ ...turn, status, content: { text: `${turn.agentId} is done` } })))

export interface Budget {
  readonly budget_id: string
  readonly agent_turn_id: string | null
  readonly token_limit: number | null
  readonly tokens_used: number
  readonly tokens_reserved: number
  readonly tokens_escrowed: number
  readonly cost_micros_used: number
  readonly exceeded_keys: readonly string[]
  readonly closed_at: Date | null
}

export const budgetOf = (t: TestKernel, agentTurnId: string) =>
  t.one<Budget>('select * from state.budgets where agent_turn_id = $1', agentTurnId)

/** Budgets whose counters differ from the sum of their reservations and children. */
export const wrongSums = (t: TestKernel) => t.all<{ budget_id: string }>(sums)

const sums = `
  select b.budget_id from state.budgets b
  where b.tokens_reserved <> (select coalesce(sum(r.tokens), 0) from state.reservations r where r.budget_id = b.budget_id and r.status = 'open')
    or b.tokens_escrowed <> (select coalesce(sum(c.token_limit), 0) from state.budgets c where c.parent_budget_id = b.budget_id and c.closed_at is null)
    or b.open_children <> (select count(*) from state.budgets c where c.parent_budget_id = b.budget_id and c.closed_at is null)
    or b.tokens_used <> (select coalesce(sum(r.tokens_used), 0) from state.reservations r where r.budget_id = b.budget_id and r.status <> 'open')
      + (select coalesce(sum(c.tokens_used), 0) from state.budgets c where c.parent_budget_id = b.budget_id and c.closed_at is not null)`
