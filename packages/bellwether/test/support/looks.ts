/** Short ways to look at a kernel's rows in tests, and to bring a turn where a test begins. */
import type { MessageType } from '@bellwether/protocol'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { DeliverResult } from '../../src/kernel/verbs/turn/deliver.js'
import type { NewTurn } from '../../src/kernel/verbs/turn/enqueue.js'
import type { ToolCall } from '../../src/kernel/verbs/turn/suspend.js'
import type { Fence } from '../../src/kernel/verdict.js'
import type { Queryable } from '../../src/ports/database/database.js'
import { project, type TestKernel } from './kernel.js'

export interface Head {
  readonly status: string
  readonly active_agent_turn_id: string | null
  readonly active_channel_id: string | null
  readonly turn_epoch: number
  readonly trace_id: string | null
  readonly parent_step_id: string | null
  readonly context_box_id: string | null
  readonly output_box_id: string | null
  readonly expecting_correlation_id: string | null
  readonly waiting_tool_count: number
  readonly resume_deadline: Date | null
  readonly turn_deadline: Date | null
  readonly updated_at: Date
}

export interface InboxRow {
  readonly inbox_id: string
  readonly agent_id: string
  readonly channel_id: string | null
  readonly message_type: MessageType
  readonly status: string
  readonly correlation_id: string | null
  readonly agent_turn_id: string | null
  readonly turn_epoch: number | null
  readonly payload: Readonly<Record<string, unknown>>
  readonly attempts: number
  readonly claimed_by: string | null
  readonly outcome: string | null
  readonly error: string | null
  readonly deliverable_card_id: string | null
  readonly ended_at: Date | null
}

export interface EventRow {
  readonly subject: string
  readonly kind: string
  readonly payload: Readonly<Record<string, unknown>>
}

export const headOf = (t: TestKernel, agentId: string) =>
  t.one<Head>('select * from state.agent_state_head where project_id = $1 and agent_id = $2', project, agentId)

export const rowOf = (t: TestKernel, inboxId: string) =>
  t.one<InboxRow>('select * from state.agent_inbox where inbox_id = $1', inboxId)

export const turnRow = (t: TestKernel, agentTurnId: string) =>
  t.one<InboxRow>(
    "select * from state.agent_inbox where agent_turn_id = $1 and message_type in ('turn', 'ui_action')",
    agentTurnId,
  )

export const eventsOf = (t: TestKernel, agentTurnId: string, kind = '%') =>
  t.all<EventRow>(
    'select subject, kind, payload from state.events where agent_turn_id = $1 and kind like $2 order by event_id',
    agentTurnId,
    kind,
  )

export const edgesTo = (t: TestKernel, agentTurnId: string) =>
  t.all<Readonly<Record<string, unknown>>>(
    'select * from state.execution_edges where target_agent_turn_id = $1 order by edge_id',
    agentTurnId,
  )

export const waitsOf = (t: TestKernel, agentTurnId: string) =>
  t.all<{ tool_call_id: string; wait_status: string; step_id: string; after_execution: string }>(
    'select * from state.turn_waiting_tools where agent_turn_id = $1 order by tool_call_id',
    agentTurnId,
  )

/** The cards of a box, oldest first. */
export const cardsIn = (t: TestKernel, boxId: string | null) => t.kernel.readBoxes([boxId])

export const ask = (t: TestKernel, agentId: string, more: Partial<NewTurn> = {}) =>
  t.kernel.enqueue({
    projectId: project,
    agentId,
    ...(more.contextBoxId === undefined ? { instruction: 'do it' } : {}),
    ...more,
  })

export const calls = (...ids: string[]): ToolCall[] =>
  ids.map((id) => ({ toolCallId: id, toolName: 'grep', args: { id } }))

/** A turn of this agent, suspended on these calls. */
export async function waiting(t: TestKernel, agentId: string, on: readonly ToolCall[]): Promise<ClaimedTurn> {
  const turn = await t.running(agentId)
  const answer = await t.kernel.suspend({ ...turn, stepId: t.ids.next(), calls: on }, 30)
  if (answer !== 'suspended') throw new Error(`suspend answered ${answer}`)
  return turn
}

export const finish = (t: TestKernel, fence: Fence, text = 'done'): Promise<DeliverResult> =>
  t.kernel.deliver({ ...fence, status: 'success', content: { text } })

export const answer = (t: TestKernel, toolCallId: string, result: unknown = { ok: true }) =>
  t.kernel.report([{ projectId: project, toolCallId, status: 'success', result }])

/** Whatever the watchdogs are allowed to see: they have been watching for ever, and are asking now. */
export const watchful = { since: new Date(0), validUntil: new Date('2999-01-01'), clockSetBack: false }

/** Every row of every table as one fingerprint a table: equal before and after means that nothing was written. */
export async function fingerprint(db: Queryable, except: readonly string[] = []): Promise<Record<string, string>> {
  const tables = await db.query<{ name: string }>({
    text: `select schemaname || '.' || tablename as name from pg_tables
      where schemaname in ('resource', 'cards', 'state') and schemaname || '.' || tablename <> all ($1) order by 1`,
    values: [except],
  })
  const prints: Record<string, string> = {}
  for (const { name } of tables) {
    const [row] = await db.query<{ print: string }>({
      text: `select count(*) || ' ' || coalesce(md5(string_agg(r::text, ',' order by r::text)), '') as print from ${name} r`,
    })
    prints[name] = row!.print
  }
  return prints
}
