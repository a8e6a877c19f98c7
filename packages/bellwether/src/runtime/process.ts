/**
 * The frame of a process that works on the database: it loads the settings, opens the log and the runtime, calls `run`, and
 * closes everything again. The exit code is what `run` returns.
 */
import { environment, type Environment, type Log, systemClock, systemRandom } from '@bellwether/base'
import { loadSettings } from '../settings/load.js'
import type { Settings } from '../settings/schema.js'
import { openLog } from './logger.js'
import { openRuntime, type Runtime } from './runtime.js'
import { listenForShutdown, type Shutdown } from './shutdown.js'

/** The fields of the ready line that `--json` prints. */
export type ReadyFacts = Readonly<Record<string, unknown>>

export interface ProcessOptions {
  /** The project folder. */
  readonly folder: string
  /** The folder of bellwether.toml and the other control files. Default: the project folder. */
  readonly control?: string
  /** Shut down when stdin ends: for a child whose parent holds the other end of the pipe. */
  readonly parentPipe?: boolean
  /** Called once, when the process is ready for work. */
  readonly onReady?: (facts: ReadyFacts) => void
}

/** What a part of a process gets. In `up` several parts share one runtime. */
export interface PartContext {
  readonly runtime: Runtime
  readonly settings: Settings
  readonly log: Log
  readonly signal: AbortSignal
  readonly env: Environment
}

export async function runProcess(
  { folder, control = folder, parentPipe = false }: ProcessOptions,
  role: string,
  run: (context: PartContext & { readonly shutdown: Shutdown }) => Promise<number>,
): Promise<number> {
  const env = environment()
  const settings = loadSettings({ folder: control, env })
  const log = openLog(role)
  const shutdown = listenForShutdown({ parentPipe, log })
  const { signal } = shutdown
  try {
    const name = `bellwether ${role}`
    const runtime = await openRuntime({ settings, log, clock: systemClock, random: systemRandom, name, signal })
    try {
      return await run({ runtime, settings, log, signal, env, shutdown })
    } finally {
      await runtime.close()
    }
  } finally {
    shutdown.release()
  }
}
