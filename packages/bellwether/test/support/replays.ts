/** Replays every ended turn of a database, and shows whether the rows of a turn changed. */
import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import { readTrail } from '../../src/kernel/reads/trail.js'
import type { Queryable } from '../../src/ports/database/database.js'
import { replay } from '../../src/worker/replay/replay.js'

/** The report of each turn that does not replay exactly. */
export async function differingReplays(db: Queryable): Promise<object[]> {
  const turns = await db.query<{ agent_turn_id: string; project_id: string }>({
    text: 'select agent_turn_id, project_id from state.turns where ended_at is not null order by agent_turn_id',
  })
  const reports = []
  for (const { agent_turn_id: turn, project_id: project } of turns) {
    const report = replay((await readTrail(db, project, turn, 'test'))!)
    if (report.result === 'differs') reports.push(report)
  }
  return reports
}

/** Of every row that belongs to the turn. */
export async function rowsHash(db: Queryable, turn: string): Promise<string> {
  const rows = await db.query<{ row: string }>({
    text: `select t::text as row from state.agent_inbox t where agent_turn_id = $1
      union all select t::text from state.agent_steps t where agent_turn_id = $1
      union all select t::text from state.turn_waiting_tools t where agent_turn_id = $1
      union all select t::text from state.transcript t where agent_turn_id = $1
      union all select c::text || x::text from cards.cards c join cards.box_cards x using (card_id)
        where c.metadata ->> 'agent_turn_id' = $1
      union all select e::text from state.events e where agent_turn_id = $1
      order by 1`,
    values: [turn],
  })
  expect(rows.length).toBeGreaterThan(5)
  return createHash('sha256')
    .update(rows.map(({ row }) => row).join('\n'))
    .digest('hex')
}
