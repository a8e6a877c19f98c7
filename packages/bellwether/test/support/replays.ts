/** Replays every ended turn of a database, and names the first step of each one that differs. */
import { readTrail } from '../../src/kernel/reads/trail.js'
import type { Queryable } from '../../src/ports/database/database.js'
import { replay } from '../../src/worker/replay/replay.js'

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
