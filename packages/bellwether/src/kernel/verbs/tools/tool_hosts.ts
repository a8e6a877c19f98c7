/**
 * The calls of a tool host (hazard 11): it claims a tool call before it acts, so that one host starts it and the others get `unknown` or
 * `gone`; it finds calls that no bell announced; it beats while it acts.
 */
import type { Queryable } from '../../../ports/database/database.js'
import { callWith } from '../../verdict.js'

export interface StartedTool {
  readonly what: 'started' | 'unknown' | 'waiting' | 'gone'
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly turn_epoch: number
  readonly tool_name: string
  readonly arguments: unknown
  readonly started_by: string | null
}

/** Undefined: unknown call. `unknown`: another host started a call that must not run twice. `waiting`: a person has not allowed it yet. */
export async function startTool(
  db: Queryable,
  projectId: string,
  toolCallId: string,
  host: string,
): Promise<StartedTool | undefined> {
  const [row] = await callWith<StartedTool>(db, 'start_tool', projectId, toolCallId, host)
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
  /** A host that has not beaten for this long is considered dead: its repeatable calls are open again. */
  readonly silentSeconds: number
  readonly max: number
}

/** Calls that a host may start, for hosts that no bell reaches. */
export async function openCalls(db: Queryable, query: OpenCallsQuery): Promise<OpenCall[]> {
  if (query.tools.length === 0 || query.max <= 0) return []
  return callWith<OpenCall>(db, 'open_calls', query.projectId, query.tools, query.silentSeconds, query.max)
}

/** Returns the calls that the host must give up: taken by another host, answered, or of an ended turn. */
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
