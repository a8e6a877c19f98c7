/** Holds the slow turns of fleet-agents.mjs: a held turn runs until `release`, and says by a file that it is held. */
import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Queryable } from '../../../src/ports/database/database.js'
import { until } from '../until.js'

interface HeldTurn {
  readonly agent_turn_id: string
  readonly claimed_by: string
}

export interface Hold {
  /** What the processes of the agents need. */
  readonly env: Readonly<Record<string, string>>
  start(): Promise<void>
  release(): Promise<void>
  /** A turn that one of these workers runs and that is held. Needs `start`. */
  turn(db: Queryable, workerIds: readonly unknown[]): Promise<HeldTurn>
}

export function openHold(folder: string): Hold {
  const file = join(folder, 'hold')
  let holds = 0
  return {
    env: { FLEET_HOLD: file },
    start: () => writeFile(file, String((holds += 1))),
    release: () => rm(file, { force: true }),
    turn: (db, workerIds) =>
      until('a slow turn is held', async () => {
        const running = await db.query<HeldTurn>({
          text: `select agent_turn_id, claimed_by from state.turns where agent_id like 'slow-%' and status = 'running'
            and claimed_by = any ($1)`,
          values: [workerIds],
        })
        return running.find((one) => existsSync(`${file}.${holds}.${one.agent_turn_id}`))
      }),
  }
}
