/**
 * `bellwether up`: runs the database, the PMO, the autopilot, the HTTP server with one view and its sensor in this process, and a
 * supervised child process per worker target. Only one `up` runs per data folder. After `kill -9` the children exit because their pipe
 * closes, and the next start takes over the database.
 */
import { setMaxListeners } from 'node:events'
import { isAbsolute, join, relative, resolve } from 'node:path'
import {
  defined,
  type Environment,
  environment,
  linkAbort,
  type Log,
  systemClock,
  systemRandom,
} from '@bellwether/base'
import { token } from '@bellwether/protocol'
import { startSensor } from '@bellwether/sensor'
import { takeFolderLock } from '../ports/database/folder-lock.js'
import { loop } from '../ports/loop.js'
import { loadSettings } from '../settings/load.js'
import type { Settings } from '../settings/schema.js'
import { runAutopilotPart } from './autopilot.js'
import { collectGarbageWhenIdle, workerHeapFlags } from './heap-tuning.js'
import { openLog } from './logger.js'
import { inProcessPipe } from './parts/in-process-pipe.js'
import { ensureAdminKey } from './parts/key-files.js'
import { openProcessMetrics } from './parts/telemetry.js'
import { type Shared, withShared } from './parts/shared.js'
import { openUpFile } from './parts/up-file.js'
import { viewExcludes } from './parts/view-excludes.js'
import { lockFile, upFile } from './paths.js'
import { runPmoPart } from './pmo.js'
import type { ProcessOptions, ReadyFacts } from './process.js'
import { runsTurns } from '../kernel/reads/work.js'
import { openRuntime, type Runtime } from './runtime.js'
import { runServerPart } from './server.js'
import { listenForShutdown, type Shutdown } from './shutdown.js'
import { superviseDatabase, type SupervisedDatabase } from './supervise/database-supervisor.js'
import { openLocalWorkers } from './supervise/local-workers.js'
import { defaultSourceId } from '../view/view.js'
import { openSupervisor } from './supervise/supervisor.js'

export interface UpOptions extends ProcessOptions {
  readonly dataDir: string
  readonly projectId: string
  /** The arguments with which node runs this program again. */
  readonly program: readonly string[]
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** The session timeout that the sensor requests. Default: sensor.session_timeout_seconds. */
  readonly sessionTimeoutSeconds?: number | undefined
  readonly onReady: (facts: ReadyFacts) => void
}

interface UpContext extends UpOptions {
  readonly settings: Settings
  readonly log: Log
  readonly shutdown: Shutdown
  /** The environment of the workers. */
  readonly env: Environment
  readonly databaseUrl: string
  readonly database: SupervisedDatabase | undefined
  /** Called when a part starts or ends. */
  readonly listeners: Set<() => void>
}

/** The name of the only view of `up`, which shows the project folder. */
const projectView = 'project'
// Workers put agents on the roster within seconds of a new file; a worker for a new target may take as long.
const refreshMs = 5_000

export async function runUpProcess(options: UpOptions): Promise<number> {
  const projectId = token(options.projectId, 'project')
  const env = environment()
  const settings = loadSettings({ folder: options.folder, env })
  const log = openLog('up')
  const shutdown = listenForShutdown({ parentPipe: options.parentPipe ?? false, log })
  const { url } = settings.database
  try {
    // The embedded database has its own lock. With another database, two processes could write one board and one up.json.
    const lock = url === undefined ? undefined : await takeFolderLock(join(options.dataDir, lockFile))
    try {
      return await withDatabase({ ...options, projectId, settings, log, shutdown, env })
    } finally {
      await lock?.release()
    }
  } finally {
    shutdown.release()
  }
}

async function withDatabase(options: Omit<UpContext, 'databaseUrl' | 'database' | 'listeners'>): Promise<number> {
  const { log, shutdown, dataDir } = options
  const { signal } = shutdown
  const listeners = new Set<() => void>()
  const { url } = options.settings.database
  const notify = () => listeners.forEach((call) => call())
  const database = url === undefined ? await superviseDatabase(dataDir, log, notify) : undefined
  const databaseUrl = url ?? database!.url
  const settings = { ...options.settings, database: { ...options.settings.database, url: databaseUrl } }
  const name = 'bellwether up'
  try {
    if (signal.aborted) return 0
    const runtime = await openRuntime({ settings, log, clock: systemClock, random: systemRandom, name, signal })
    try {
      const { folder, projectId, env } = options
      const root = settings.board.root ?? '.'
      return await withShared(
        { runtime, settings, log, signal, env },
        { folder, root, projectId, role: 'up', views: [projectView], evidenceView: evidenceView(folder, root) },
        (shared) => runParts({ ...options, settings, databaseUrl, database, listeners }, runtime, shared),
      )
    } finally {
      await runtime.close()
    }
  } catch (error) {
    // A shutdown during the start is not a failure.
    if (signal.aborted && error instanceof Error && 'code' in error && error.code === 'stopped') return 0
    throw error
  } finally {
    await database?.stop()
  }
}

async function runParts(options: UpContext, runtime: Runtime, shared: Shared): Promise<number> {
  const { folder, dataDir, projectId, settings, log, env, shutdown, database, databaseUrl, listeners } = options
  // A signal of the parts' own: they also end if one of them cannot be opened.
  const stopping = linkAbort(shutdown.signal)
  const { signal } = stopping
  setMaxListeners(0, signal) // every part listens to it
  const supervisor = openSupervisor({ clock: systemClock, log, onChange: () => listeners.forEach((call) => call()) })
  const context = { runtime, settings, log, signal, env }
  const root = settings.board.root ?? '.'
  const file = openUpFile(dataDir)
  // The key must exist before the server loads the keys.
  await ensureAdminKey(runtime.kernel, dataDir)
  const metrics = await openProcessMetrics(runtime, log, shared.board)
  let running: readonly Promise<unknown>[] = []
  try {
    let onReady = (_facts: ReadyFacts): void => undefined
    const listening = new Promise<ReadyFacts>((resolve) => (onReady = resolve))
    running = [
      runPmoPart(context, { alerts: shared.board!.alerts }),
      runServerPart(context, {
        folder,
        dataDir,
        shared,
        metrics: () => metrics.text(),
        parts: () => [...(database === undefined ? [] : [database.part]), ...supervisor.parts],
        host: options.host,
        port: options.port,
        onReady,
      }),
      runAutopilotPart(context, shared.board!),
    ]
    const all = Promise.all(running)
    // A part that cannot be opened rejects `all` and ends the start with its own error.
    const facts: ReadyFacts = await Promise.race([listening, all.then(() => ({}))])
    const { url } = facts
    // The server has no URL if a shutdown came first.
    if (typeof url !== 'string') return 0
    const sensor = startSensor({
      root: folder,
      server: url,
      http: inProcessPipe({ fusion: shared.fusion!, view: projectView, log, signal }),
      keys: ['in-process'],
      id: projectView,
      log,
      native: true,
      mustBeMounted: false,
      pollSeconds: settings.sensor.poll_seconds,
      stuckSeconds: settings.sensor.stuck_seconds,
      ...defined({ sessionTimeoutSeconds: options.sessionTimeoutSeconds ?? settings.sensor.session_timeout_seconds }),
      exclude: viewExcludes({ folder, dataDir, boardRoot: root, globs: settings.view.exclude }),
    })
    try {
      const workers = openLocalWorkers({
        folder,
        projectId,
        child: {
          program: [...workerHeapFlags, ...options.program],
          env: { ...env, BELLWETHER__DATABASE__URL: databaseUrl },
          folder,
          signal,
        },
        supervisor,
        ranTurns: (workerId) => runsTurns(runtime.kernel.db, workerId),
        log,
        signal,
      })
      await Promise.race([workers.refresh(), all])
      if (signal.aborted) return 0
      const write = () => file.write({ url, pid: process.pid, project: projectId, databaseUrl }, supervisor.parts)
      write()
      listeners.add(() => {
        // Commands work without the file, so a full disk must not end `up`.
        try {
          if (!signal.aborted) write()
        } catch (error) {
          log.warn({ err: error, file: upFile }, 'could not write the file that commands read')
        }
      })
      options.onReady({ ...facts, ready: true, role: 'up', databaseUrl, dataDir })
      const timing = { clock: systemClock, log, signal }
      await Promise.all([
        all,
        loop({ ...timing, name: 'worker targets', intervalMs: refreshMs, steady: true }, () => workers.refresh()),
        collectGarbageWhenIdle(timing),
      ])
      return 0
    } finally {
      await sensor.stop()
    }
  } finally {
    stopping.abort()
    file.remove()
    await supervisor.stop(shutdown.orphaned())
    await Promise.allSettled(running)
  }
}

/** Where the project view shows the task root; undefined if the root is outside the project folder. */
function evidenceView(folder: string, root: string) {
  const path = relative(folder, resolve(folder, root))
  if (path === '..' || path.startsWith('../') || isAbsolute(path)) return undefined
  return { view: projectView, source: defaultSourceId, path: `/${path}` }
}
