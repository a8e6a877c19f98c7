/**
 * What a tool host says to the kernel (hazard 11): it claims a call before it acts, so that one host starts it and for the others
 * it is `unknown` or `gone`; it finds calls that no bell told it of; it shows that it is alive while it acts.
 */
import type { Queryable } from '../../../ports/database/database.js'

export interface StartedTool {
  readonly what: 'started' | 'unknown' | 'gone'
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly turn_epoch: number
  readonly tool_name: string
  readonly arguments: unknown
  readonly started_by: string | null
}

/** Undefined: there is no such call. `unknown`: another host started a call that must not run twice. */
export async function startTool(
  db: Queryable,
  projectId: string,
  toolCallId: string,
  host: string,
): Promise<StartedTool | undefined> {
  const [row] = await db.query<StartedTool>({
    name: 'bw_start_tool',
    text: 'select * from state.start_tool($1, $2, $3)',
    values: [projectId, toolCallId, host],
  })
  return row
}

export interface OpenCall {
  readonly tool_call_id: string
  readonly tool_name: string
  readonly traceparent: string | null
}

export interface OpenCallsQuery {
  readonly projectId: string
  readonly tools: readonly string[]
  /** A host that has not beaten for this long is taken for dead: its repeatable calls are open again. */
  readonly silentSeconds: number
  readonly max: number
}

/** Calls that a host may start: what a host lives by when no bell reaches it. */
export async function openCalls(db: Queryable, query: OpenCallsQuery): Promise<OpenCall[]> {
  if (query.tools.length === 0 || query.max <= 0) return []
  return db.query<OpenCall>({
    name: 'bw_open_calls',
    text: 'select * from state.open_calls($1, $2, $3, $4)',
    values: [query.projectId, query.tools, query.silentSeconds, query.max],
  })
}

/** Answers the calls that are to be given up: taken by another host, answered, or of a turn that has ended. */
export async function beatTools(
  db: Queryable,
  projectId: string,
  toolCallIds: readonly string[],
  host: string,
): Promise<Set<string>> {
  if (toolCallIds.length === 0) return new Set()
  const rows = await db.query<{ id: string }>({
    name: 'bw_beat_tools',
    text: 'select * from state.beat_tools($1, $2, $3) as id',
    values: [projectId, toolCallIds, host],
  })
  return new Set(rows.map((row) => row.id))
}
