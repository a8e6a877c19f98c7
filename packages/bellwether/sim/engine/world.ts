/**
 * A migrated database made ready for simulation, once, and emptied before each run. Tables that held rows when the world
 * was opened (what migrations seeded) get those rows back. Connections live as long as the world; one world runs one
 * simulation at a time. The runs themselves are run.ts's.
 */
import type { Queryable } from '../../src/ports/database/database.js'
import { types } from '../../src/ports/database/pg-types.js'
import { Control } from './control.js'
import { claimDatabase, installGates, instrumentSchema, replaceClock } from './install.js'
import { installReset, type Emptying } from './reset.js'

export interface WorldOptions {
  /** A database of its own, already migrated; the role must be a superuser. */
  readonly url: string
  /** Their functions get gates, their tables are emptied. */
  readonly schemas: readonly string[]
  /** The function that tells the time in SQL; it will tell the world's. `state.now` for the kernel. */
  readonly now?: string
  /** 'truncate' unless told. */
  readonly emptying?: Emptying
}

export interface World {
  /** The scheduler's own session: for set-up and for looking, never stopped by a gate. */
  readonly db: Queryable
  readonly control: Control
  /** The functions that got gates. */
  readonly instrumented: readonly string[]
  reset(clockUs: number): Promise<void>
  close(): Promise<void>
}

export async function openWorld(options: WorldOptions): Promise<World> {
  const control = await Control.open({ connectionString: options.url, types })
  try {
    const instrumented = await prepare(control, options)
    return worldOf(control, instrumented)
  } catch (error) {
    await control.close()
    throw error
  }
}

async function prepare(control: Control, options: WorldOptions): Promise<string[]> {
  if (!(await claimDatabase(control))) throw new Error('another world runs in this database')
  await installGates(control)
  if (options.now !== undefined) await replaceClock(control, options.now)
  const instrumented: string[] = []
  for (const schema of options.schemas) instrumented.push(...(await instrumentSchema(control, schema)))
  await installReset(control, options.schemas, options.emptying ?? 'truncate')
  return instrumented
}

function worldOf(control: Control, instrumented: readonly string[]): World {
  return {
    db: control,
    control,
    instrumented,
    reset: async (clockUs) => {
      await control.query({ text: `select sim.reset(), setval('sim.clock', $1)`, values: [clockUs] })
    },
    close: () => control.close(),
  }
}
