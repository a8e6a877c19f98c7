/** What the audience sees: who does what, what the watchdogs did, and the final table. Reads only. */
import type { Queryable } from '../ports/database/database.js'
import type { Audit } from './audit.js'
import { columns } from './screen.js'
import type { Played } from './script.js'

/** The live table. */
export async function liveTable(db: Queryable, projectId: string): Promise<string[]> {
  const rows = await db.query<{
    agent_id: string
    status: string
    doing: string | null
    queued: number
    ended: number
  }>({
    text: `select h.agent_id, h.status, coalesce(h.current_tool, h.activity) as doing,
        (select count(*)::int from state.turns t where t.project_id = h.project_id and t.agent_id = h.agent_id and t.status = 'queued') as queued,
        (select count(*)::int from state.turns t where t.project_id = h.project_id and t.agent_id = h.agent_id and t.ended_at is not null) as ended
      from state.agent_state_head h where h.project_id = $1 order by h.agent_id`,
    values: [projectId],
  })
  const lines = rows.map((row) => [row.agent_id, row.status, row.doing ?? '', String(row.queued), String(row.ended)])
  return ['', ...columns([['agent', 'status', 'doing', 'queued', 'ended'], ...lines])]
}

export interface Seen {
  readonly id: number
  readonly sentences: readonly string[]
}

/** What watchdogs did since `after`, in sentences. */
export async function interventionsSince(db: Queryable, projectId: string, after: number): Promise<Seen> {
  const rows = await db.query<{ id: number; kind: string; agent_id: string; reason: string; epoch: number }>({
    text: `select intervention_id::int as id, kind, agent_id, reason, turn_epoch::int as epoch
      from state.interventions where project_id = $1 and intervention_id > $2 order by intervention_id`,
    values: [projectId, after],
  })
  const sentences = rows.map(
    (row) => `watchdog: ${row.kind} of ${row.agent_id}’s turn, now epoch ${row.epoch} (${row.reason})`,
  )
  return { id: rows.at(-1)?.id ?? after, sentences }
}

export function finalTable(audit: Audit, played: Played, seconds: number): string[] {
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([name, times]) => `${name} ${times}`)
      .join(', ') || 'none'
  const perTurn = audit.turns === 0 ? 0 : audit.taskEvents / audit.turns
  return columns([
    ['turns', `${audit.turns} in ${seconds.toFixed(0)} s`],
    ['by outcome', list(audit.outcomes)],
    ['faults injected', list(played.faults)],
    ['interventions', list(audit.interventions)],
    ['taken over', String(audit.takenOver)],
    ['task events per turn', String(perTurn)],
    ['stuck', String(audit.stuck.length)],
    ['lost', String(audit.lost.length)],
  ])
}
