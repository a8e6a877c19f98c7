/**
 * Counts what the fleet has done since this process started: turns by outcome, steps, tokens, tool calls, interventions. Reads the outbox
 * by cursor in bounded pages, so that each turn is counted once, whichever process ran it, and no turn waits for the counting.
 */
import {
  countInterventions,
  countStart,
  countTurns,
  type InterventionCount,
  type TurnCounts,
} from '../kernel/reads/counts.js'
import { readEnded } from '../kernel/reads/ended-turns.js'
import type { Queryable } from '../ports/database/database.js'

export interface Counted extends TurnCounts {
  readonly interventions: readonly Pick<InterventionCount, 'kind' | 'times'>[]
}

export interface FleetCounts {
  /** Counts everything new since the last call. */
  countNew(onCounted: (counted: Counted) => void): Promise<void>
}

// 40,000 events: what a busy fleet does in a few seconds. Later calls count the rest of a backlog.
const pagesMax = 20

export async function openFleetCounts(db: Queryable): Promise<FleetCounts> {
  let { cursor, interventionId } = await countStart(db)

  async function newInterventions(): Promise<readonly InterventionCount[]> {
    const rows = await countInterventions(db, interventionId)
    for (const { last } of rows) if (BigInt(last) > BigInt(interventionId)) interventionId = last
    return rows
  }

  return {
    async countNew(onCounted) {
      onCounted({ outcomes: [], steps: [], tools: [], interventions: await newInterventions() })
      for (let page = 0; page < pagesMax; page += 1) {
        const { turns, last, full } = await readEnded(db, cursor)
        if (last === undefined) return
        const counts = await countTurns(db, turns)
        // The cursor moves only after counting succeeded: a failed call is repeated and counts nothing twice.
        cursor = last
        onCounted({ ...counts, interventions: [] })
        if (!full) return
      }
    },
  }
}
