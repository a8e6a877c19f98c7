/**
 * A migrated database that is prepared for simulation once and emptied before each run. Tables that held rows when the world was opened (seeded by
 * migrations) get those rows back. Connections live as long as the world; one world runs one simulation at a time. run.ts runs them.
 */
import type { Queryable } from '../../src/ports/database/database.js'
import { types } from '../../src/ports/database/pg-types.js'
import { Control } from './control.js'
import { claimDatabase, installGates, instrumentSchema, replaceClock } from './gates/install.js'
import { installReset, type Emptying } from './reset.js'

export interface WorldOptions {
  /** A dedicated, migrated database; the role must be a superuser. */
  readonly url: string
  /** Functions in these schemas get gates; their tables are emptied. */
  readonly schemas: readonly string[]
  /** The SQL function that returns the time, which the world replaces: `state.now` for the kernel. */
  readonly now?: string
  /** Default: 'truncate'. */
  readonly emptying?: Emptying
}

export interface World {
  /** The scheduler's session, for set-up and checks; gates never stop it. */
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
  if (!(await claimDatabase(control))) throw new Error('Another simulation world uses this database')
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
