/** A tool host claims a call before it acts (hazard 11): one host starts it; for the others it is `unknown` or `gone`. */
import type { Queryable } from '../ports/database/database.js'

export interface StartedTool {
  readonly what: 'started' | 'unknown' | 'gone'
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
