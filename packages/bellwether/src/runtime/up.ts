/**
 * `bellwether up`: runs the database, the PMO, the autopilot, the HTTP server with one view and its sensor in this process, and a
 * supervised child process per worker target. Only one `up` runs per data folder. After `kill -9` the children exit because their pipe
 * closes, and the next start takes over the database.
 */
import { setMaxListeners } from 'node:events'
import { isAbsolute, join, relative, resolve } from 'node:path'
import {
  defined,
  environment,
  hasCode,
  linkAbort,
  systemClock,
  systemRandom,
  type Environment,
  type Log,
} from '@bellwether/base'
import { token } from '@bellwether/protocol'
import { startSensor } from '@bellwether/sensor'
import { takeFolderLock } from '../ports/database/folder-lock.js'
import { putWorkerRole } from '../kernel/access/worker-role.js'
import type { Database } from '../ports/database/database.js'
import { hideProcess } from '../ports/processes/hide-process.js'
import { inheritedEnvironment } from '../ports/processes/environment.js'
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
import { openReports, openTerminalLog, type TerminalReports, type UpTerminal } from './parts/up-terminal.js'
import { viewExcludes } from './parts/view-excludes.js'
import { lockFile } from './paths.js'
import { runPmoPart } from './pmo.js'
import type { ProcessOptions, ReadyFacts } from './process.js'
import { runsTurns } from '../kernel/reads/work.js'
import { openRuntime, type Runtime } from './runtime.js'
import { type Control, openControl } from './control/open.js'
import type { Project } from './control/trust.js'
import { requireKeyFor, runServerPart } from './server.js'
import { drainSeconds, listenForShutdown, type Shutdown } from './shutdown.js'
import { superviseDatabase, type SupervisedDatabase } from './supervise/database-supervisor.js'
import { startVariables, withoutOwnSecrets } from './supervise/worker-environment.js'
import { openLocalWorkers } from './supervise/local-workers.js'
import { defaultSourceId } from '../view/view.js'
import { openSupervisor } from './supervise/supervisor.js'

export interface UpOptions extends ProcessOptions {
  readonly dataDir: string
  readonly projectId: string
  /** The control files of the folder, which a person trusts. */
  readonly project: Pick<Project, 'files' | 'found' | 'copy' | 'home' | 'agentsFile'>
  /** The arguments with which node runs this program again. */
  readonly program: readonly string[]
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** The session timeout that the sensor requests. Default: sensor.session_timeout_seconds. */
  readonly sessionTimeoutSeconds?: number | undefined
  readonly onReady: (facts: ReadyFacts) => void
  /** Present: a person watches. Then logs go to its file instead of stderr. */
  readonly terminal?: UpTerminal | undefined
}

interface UpContext extends UpOptions {
  readonly settings: Settings
  readonly log: Log
  readonly shutdown: Shutdown
  /** The environment of the workers. */
  readonly env: Environment
  readonly databaseUrl: string
  readonly database: SupervisedDatabase | undefined
  readonly accepted: Control
  readonly reports: TerminalReports
  /** Called when a part starts or ends. */
  readonly listeners: Set<() => void>
}

/** The database role of the workers. */
const workerRole = 'bellwether_worker'
/** The name of the only view of `up`, which shows the project folder. */
const projectView = 'project'

export async function runUpProcess(options: UpOptions): Promise<number> {
  const projectId = token(options.projectId, 'project')
  const env = environment()
  const settings = loadSettings({ folder: options.project.copy, env })
  const { terminal } = options
  const log = terminal === undefined ? openLog('up') : openTerminalLog(terminal)
  hideProcess()
  const onExit = () => terminal?.exiting()
  const shutdown = listenForShutdown({ parentPipe: options.parentPipe ?? false, log, onExit })
  const { url } = settings.database
  try {
    // The embedded database has its own lock. With another database, two processes could write one board and one up.json.
    const lock = url === undefined ? undefined : await takeFolderLock(join(options.dataDir, lockFile))
    const reports = openReports(terminal, { signal: shutdown.signal, log, drainSeconds })
    try {
      const code = await withDatabase({ ...options, projectId, settings, log, shutdown, env, reports })
      reports.close()
      return code
    } finally {
      await lock?.release()
    }
  } finally {
    shutdown.release()
  }
}

async function withDatabase(
  options: Omit<UpContext, 'databaseUrl' | 'database' | 'listeners' | 'accepted'>,
): Promise<number> {
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
      const { files, found, home, agentsFile } = options.project
      const control = await openControl({
        runtime,
        settings,
        folder,
        root,
        dataDir,
        projectId,
        files,
        found,
        home,
        agentsFile,
        log,
      })
      const ours = { role: 'up', views: [projectView], evidenceView: evidenceView(folder, root) }
      return await withShared(
        { runtime, settings, log, signal, env },
        { folder, root, projectId, policyRoot: control.folder, dataDir, ...ours },
        (shared) =>
          runParts({ ...options, settings, databaseUrl, database, listeners, accepted: control }, runtime, shared),
      )
    } finally {
      await runtime.close()
    }
  } catch (error) {
    // A shutdown during the start is not a failure.
    if (signal.aborted && hasCode(error, 'stopped')) return 0
    throw error
  } finally {
    await database?.stop()
  }
}

async function runParts(options: UpContext, runtime: Runtime, shared: Shared): Promise<number> {
  const { folder, dataDir, projectId, settings, log, env, shutdown, database, databaseUrl, listeners, accepted } =
    options
  // A signal of the parts' own: they also end if one of them cannot be opened.
  const stopping = linkAbort(shutdown.signal)
  const { signal } = stopping
  setMaxListeners(0, signal) // every part listens to it
  const supervisor = openSupervisor({ clock: systemClock, log, onChange: () => listeners.forEach((call) => call()) })
  const context = { runtime, settings, log, signal, env }
  const root = settings.board.root ?? '.'
  const file = openUpFile({ folder, dataDir, log })
  // Before the first key is created: with it, other machines could be let in.
  await requireKeyFor(options.host ?? settings.server.host, runtime.kernel.db)
  // The key must exist before the server loads the keys.
  const adminKey = await ensureAdminKey(runtime.kernel, { folder: dataDir, project: folder })
  const metrics = await openProcessMetrics(runtime, log, shared.board)
  let running: readonly Promise<unknown>[] = []
  try {
    const workerUrl = await workerUrlOf(options, runtime.kernel.db)
    const workers = openLocalWorkers({
      control: accepted.folder,
      agentsFile: options.project.agentsFile,
      projectId,
      child: {
        program: [...workerHeapFlags, ...options.program],
        env: inheritedEnvironment(startVariables(env), env),
        secrets: { ...withoutOwnSecrets(env), ...databaseVariables(options, workerUrl) },
        folder,
        signal,
        ...defined({ logFile: options.terminal?.logFile.path }),
      },
      supervisor,
      ranTurns: (workerId) => runsTurns(runtime.kernel.db, workerId),
      log,
      signal,
    })
    // Workers need the database and no server: their processes start while this one opens its own parts.
    const starting = workers.refresh()
    starting.catch(() => undefined) // awaited below, unless a part fails first
    let onReady = (_facts: ReadyFacts): void => undefined
    const server: { url?: string } = {}
    const listening = new Promise<ReadyFacts>((resolve) => (onReady = resolve))
    running = [
      runPmoPart(context, { alerts: shared.board!.alerts, serverUrl: () => server.url }),
      runServerPart(context, {
        folder,
        dataDir,
        adminKey,
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
    server.url = url
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
      await Promise.race([starting, all])
      if (signal.aborted) return 0
      const timing = { clock: systemClock, log, signal }
      const write = () =>
        file.write(
          { url, project: projectId, databaseUrl, logFile: options.terminal?.logFile.path ?? null },
          supervisor.parts,
        )
      write()
      listeners.add(() => {
        if (!signal.aborted) write()
      })
      const { tail, board } = shared
      await options.reports.start({ ...timing, tail, board, db: runtime.kernel.db, projectId })
      options.onReady({ ...facts, ready: true, role: 'up', databaseUrl, dataDir })
      await Promise.all([all, accepted.run(signal, () => workers.refresh()), collectGarbageWhenIdle(timing)])
      return 0
    } finally {
      await sensor.stop()
    }
  } finally {
    stopping.abort()
    file.remove()
    await supervisor.stop(shutdown.orphaned())
    await options.reports.stop()
    // Files that the last turns changed are held back at the next start.
    await accepted.step().catch((error: unknown) => log.warn({ err: error }, 'cannot check the control files'))
    await Promise.allSettled(running)
  }
}

/** A direct URL, for LISTEN, gets the role of the workers too. */
function databaseVariables({ settings, databaseUrl }: UpContext, workerUrl: string): Environment {
  const { direct_url: direct } = settings.database
  const { username, password } = new URL(workerUrl)
  return {
    BELLWETHER__DATABASE__URL: workerUrl,
    BELLWETHER__DATABASE__DIRECT_URL:
      direct === undefined || workerUrl === databaseUrl
        ? direct
        : Object.assign(new URL(direct), { username, password }).href,
  }
}

/** The database as workers see it: with a role that can run turns and nothing else. Its password lives as long as this process. */
async function workerUrlOf({ settings, databaseUrl, database }: UpContext, db: Database): Promise<string> {
  const { worker_url: wanted } = settings.database
  // On another server, only its administrator may create roles.
  if (wanted !== undefined || database === undefined) return wanted ?? databaseUrl
  const role = { name: workerRole, password: Buffer.from(systemRandom.bytes(24)).toString('hex') }
  await putWorkerRole(db, role)
  return Object.assign(new URL(databaseUrl), { username: role.name, password: role.password }).href
}

/** Where the project view shows the task root; undefined if the root is outside the project folder. */
function evidenceView(folder: string, root: string) {
  const path = relative(folder, resolve(folder, root))
  if (path === '..' || path.startsWith('../') || isAbsolute(path)) return undefined
  return { view: projectView, source: defaultSourceId, path: `/${path}` }
}
