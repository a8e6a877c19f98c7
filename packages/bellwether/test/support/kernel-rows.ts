/** Reads rows of a test kernel. */
import type { MessageType } from '@bellwether/protocol'
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
  readonly shared_deaths: number
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
  readonly deaths: number
  readonly claimed_by: string | null
  readonly outcome: string | null
  readonly error: string | null
  readonly deliverable_card_id: string | null
  readonly ended_at: Date | null
  readonly processed_at: Date | null
  readonly archived_at: Date | null
}

export interface EventRow {
  readonly subject: string
  readonly kind: string
  readonly payload: Readonly<Record<string, unknown>>
}

export const headOf = (t: TestKernel, agentId: string) =>
  t.one<Head>('select * from state.agent_state_head where project_id = $1 and agent_id = $2', project, agentId)

export const inboxRow = (t: TestKernel, inboxId: string) =>
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

/** A hash of all rows per table. If it is equal before and after a call, the call wrote nothing. */
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
