/**
 * Checks in the database that every turn ended exactly once: it has a row, an end, one task event, and one deliverable in its
 * output box; and that no deliverable exists without a turn. Read-only.
 */
import type { Queryable } from './database.js'

export interface TurnCheck {
  readonly turns: number
  readonly outcomes: Readonly<Record<string, number>>
  readonly interventions: Readonly<Record<string, number>>
  /** Turns that a second worker took over. */
  readonly takenOver: number
  readonly taskEvents: number
  /** Turns that have not ended. */
  readonly stuck: readonly string[]
  /** Turns without a row, or ended without exactly one task event and one deliverable; deliverables without a turn. */
  readonly lost: readonly string[]
}

interface Row {
  readonly agent_turn_id: string
  readonly known: boolean
  readonly outcome: string | null
  readonly taken_over: boolean
  readonly task_events: number
  readonly deliverables: number
}

/** `after`: the id of the last intervention before this run. */
export async function checkTurns(
  db: Queryable,
  projectId: string,
  turnIds: readonly string[],
  target: string | readonly string[],
  after = 0,
): Promise<TurnCheck> {
  const rows = await db.query<Row>({
    text: `select w.agent_turn_id, t.agent_turn_id is not null as known, t.outcome,
        exists (select from state.interventions i where i.agent_turn_id = w.agent_turn_id and i.kind = 'reclaim'
          and i.before ->> 'status' = 'running') as taken_over,
        (select count(*)::int from state.events e where e.agent_turn_id = w.agent_turn_id and e.kind = 'task') as task_events,
        (select count(*)::int from cards.box_cards b join cards.cards c on c.card_id = b.card_id
          where b.box_id = h.output_box_id and c.type = 'task.deliverable' and c.metadata ->> 'agent_turn_id' = w.agent_turn_id
            and c.card_id = t.deliverable_card_id) as deliverables
      from unnest($2::text[]) as w (agent_turn_id)
      left join state.turns t on t.agent_turn_id = w.agent_turn_id and t.project_id = $1
      left join state.agent_state_head h on h.project_id = t.project_id and h.agent_id = t.agent_id`,
    values: [projectId, turnIds],
  })
  const kinds = await db.query<{ kind: string; times: number }>({
    // A repeated bell is recorded per worker target, not per project.
    text: `select kind, count(*)::int as times from state.interventions
      where intervention_id > $3 and (project_id = $1 or (project_id is null and after ->> 'worker_target' = any ($2)))
      group by kind order by kind`,
    values: [projectId, [target].flat(), after],
  })
  // A deliverable without a turn would be the effect of a worker that had lost its fence.
  const strays = await db.query<{ agent_turn_id: string }>({
    text: `select c.metadata ->> 'agent_turn_id' as agent_turn_id from cards.cards c
      where c.project_id = $1 and c.type = 'task.deliverable'
        and not exists (select from state.turns t where t.deliverable_card_id = c.card_id)`,
    values: [projectId],
  })
  return {
    turns: rows.length,
    outcomes: tally(rows.flatMap((row) => row.outcome ?? [])),
    interventions: Object.fromEntries(kinds.map(({ kind, times }) => [kind, times])),
    takenOver: rows.filter((row) => row.taken_over).length,
    taskEvents: rows.reduce((sum, row) => sum + row.task_events, 0),
    stuck: rows.filter((row) => row.known && row.outcome === null).map((row) => row.agent_turn_id),
    lost: [
      ...rows.filter(
        (row) => !row.known || (row.outcome !== null && (row.task_events !== 1 || row.deliverables !== 1)),
      ),
      ...strays,
    ].map((row) => row.agent_turn_id),
  }
}

export interface Mark {
  readonly interventionId: number
  readonly turnId: string
}

/** The newest ids in the database: a run consists of the rows after them. */
export async function markStart(db: Queryable): Promise<Mark> {
  const [row] = await db.query<{ intervention_id: number; turn_id: string }>({
    text: `select (select coalesce(max(intervention_id), 0)::int from state.interventions) as intervention_id,
      (select coalesce(max(agent_turn_id), '') from state.agent_inbox) as turn_id`,
  })
  return { interventionId: row?.intervention_id ?? 0, turnId: row?.turn_id ?? '' }
}

interface TurnRow {
  readonly agent_turn_id: string
  readonly agent_id: string
}

/** Every turn of the project after `turnId`, also of children and of the board, and every open turn. */
export async function turnsSince(db: Queryable, projectId: string, turnId: string): Promise<TurnRow[]> {
  return db.query<TurnRow>({
    text: `select agent_turn_id, agent_id from state.turns where project_id = $1 and (agent_turn_id > $2 or ended_at is null)`,
    values: [projectId, turnId],
  })
}

/** Turns of the project that have not ended. */
export async function countOpenTurns(db: Queryable, projectId: string): Promise<number> {
  const [row] = await db.query<{ open: number }>({
    text: 'select count(*)::int as open from state.turns where project_id = $1 and ended_at is null',
    values: [projectId],
  })
  return row?.open ?? 0
}

function tally(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}
