/**
 * `bellwether up`: everything on one machine. The database (embedded unless one is named), the PMO, the autopilot, the HTTP server
 * with the workspace view and the sensor live in this process; workers are child processes, one for each worker target that an
 * agent names. Always: the parts share one house and one end; a worker that dies is started again; an embedded database that
 * dies is started again on its port; after kill -9 of this process its children go by themselves and the next start takes
 * the database over.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import { startSensor } from '@bellwether/sensor'
import { createKey, hashKey, readLiveKeys } from '../kernel/keys.js'
import { systemClock } from '../ports/clock.js'
import { startEmbedded, type Embedded } from '../ports/database/embedded.js'
import type { Log } from '../ports/log.js'
import { loop } from '../ports/loop.js'
import { systemRandom } from '../ports/random.js'
import type { Settings } from '../settings/schema.js'
import { openAgentFolder } from '../worker/roster/folder.js'
import { runAutopilotPart } from './autopilot.js'
import { agentsFolder } from './file-agents.js'
import { openHouse, type House } from './house.js'
import type { Lifeline } from './lifeline.js'
import { startMember, type MemberOptions } from './member.js'
import { upFile } from './places.js'
import { runPmoPart } from './pmo.js'
import { restartOf } from './restart.js'
import { ensureFirstKey, runServer } from './server.js'
import { openSupervisor, type PartState, type Supervisor } from './supervisor.js'
import { openHouseMetrics } from './telemetry.js'

export interface UpOptions {
  readonly folder: string
  readonly dataDir: string
  readonly projectId: string
  readonly settings: Settings
  readonly log: Log
  readonly lifeline: Lifeline
  /** What node runs to be this program again, and with which environment. */
  readonly program: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly host?: string
  readonly port?: number
  readonly onReady: (facts: Readonly<Record<string, unknown>>) => void
  readonly onChange?: (part: PartState) => void
}

/** The one view of `up`: the project folder. */
const projectView = 'project'
const sensorKeyFile = 'sensor-key'
// Endings of the database that are remembered: more than a crash loop needs.
const endingsMax = 20
// Agents are put on the roster within seconds of their file; their workers may take as long.
const lookMs = 5_000

export async function runUp(options: UpOptions): Promise<number> {
  const { log, lifeline, dataDir } = options
  const database = options.settings.database.url === undefined ? await keepDatabase(dataDir, log) : undefined
  const url = options.settings.database.url ?? database!.url
  const settings = { ...options.settings, database: { ...options.settings.database, url } }
  try {
    const house = await openHouse({
      settings,
      log,
      clock: systemClock,
      random: systemRandom,
      name: 'bellwether up',
      signal: lifeline.signal,
    })
    try {
      return await inHouse({ ...options, settings }, house)
    } finally {
      await house.close()
    }
  } finally {
    await database?.stop()
  }
}

async function inHouse(options: UpOptions, house: House): Promise<number> {
  const { folder, dataDir, projectId, settings, log, lifeline } = options
  const { signal } = lifeline
  const supervisor = openSupervisor({
    clock: systemClock,
    log,
    ...(options.onChange === undefined ? {} : { onChange: options.onChange }),
  })
  const parts = { house, settings, log, signal, folder, projectId, env: options.env }
  const root = settings.board.root ?? '.'
  const address = join(dataDir, upFile)
  // The administrator's comes first of all, and both before the server reads the keys that it knows.
  await ensureFirstKey(house.kernel.db, house.kernel.ids, dataDir)
  const key = await sensorKey(house, dataDir)
  const metrics = await openHouseMetrics(house, log)
  try {
    let ready = (_facts: Readonly<Record<string, unknown>>): void => undefined
    const listening = new Promise<Readonly<Record<string, unknown>>>((resolved) => (ready = resolved))
    const running = [
      runPmoPart(parts),
      runServer({
        ...parts,
        dataDir,
        root,
        views: [projectView],
        metrics: () => metrics.text(),
        ...(options.host === undefined ? {} : { host: options.host }),
        ...(options.port === undefined ? {} : { port: options.port }),
        onReady: ready,
      }),
      runAutopilotPart({ ...parts, root }),
    ]
    // A part that cannot be opened ends the start, in its own words.
    const facts: Readonly<Record<string, unknown>> = await Promise.race([
      listening,
      Promise.all(running).then(() => ({})),
    ])
    const { url: server } = facts
    // Told to stop before it was there.
    if (typeof server !== 'string') return 0
    const sensor = startSensor({
      root: folder,
      server,
      keys: [key],
      id: projectView,
      log,
      native: true,
      mustBeMounted: false,
    })
    try {
      await startWorkers(options, supervisor)
      writeFileSync(address, `${JSON.stringify({ url: server, pid: process.pid, project: projectId })}\n`, {
        mode: 0o600,
      })
      options.onReady({ ...facts, ready: true, role: 'up', databaseUrl: settings.database.url, dataDir })
      const looking = loop(
        { name: 'worker targets', clock: systemClock, log, signal, intervalMs: lookMs, steady: true },
        () => startWorkers(options, supervisor),
      )
      await Promise.all([...running, looking])
      return 0
    } finally {
      await sensor.stop()
    }
  } finally {
    rmSync(address, { force: true })
    await supervisor.stop(lifeline.orphaned())
  }
}

/** A worker for every target that an agent's file names, and that has none yet. */
async function startWorkers(options: UpOptions, supervisor: Supervisor): Promise<void> {
  const { folder, log, lifeline, settings } = options
  const agents = openAgentFolder({ folder: join(folder, agentsFolder), log: silent })
  try {
    await agents.look()
  } catch (error) {
    // No agents yet: they may come.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return
    throw error
  }
  const targets = new Set([...agents.agents.values()].map((agent) => agent.settings.worker_target))
  const member: MemberOptions = {
    program: options.program,
    env: { ...options.env, BELLWETHER__DATABASE__URL: settings.database.url },
    folder,
    signal: lifeline.signal,
  }
  for (const target of [...targets].sort()) {
    const name = `worker ${target}`
    if (supervisor.parts.some((part) => part.name === name) || lifeline.signal.aborted) continue
    const words = ['--target', target, '--project', options.projectId]
    try {
      await supervisor.keep({ name, start: () => startMember(member, 'worker', words) })
    } catch (error) {
      // One target that cannot work must not keep the house from its other work.
      log.error({ err: error, target }, 'a worker could not be started; see what it said above')
    }
  }
}

const silent: Log = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** The key that our own sensor uses: kept beside the database, made again when it is no longer good. */
async function sensorKey({ kernel }: House, dataDir: string): Promise<string> {
  const file = join(dataDir, sensorKeyFile)
  const kept = readText(file)?.trim()
  const known = await readLiveKeys(kernel.db)
  if (kept !== undefined && known.some((key) => key.role === 'sensor' && key.hash.equals(hashKey(kept)))) return kept
  const ports = { ids: kernel.ids, random: systemRandom }
  const { key } = await createKey(kernel.db, ports, { role: 'sensor', view: projectView, name: 'up', by: 'up' })
  writeFileSync(file, `${key}\n`, { mode: 0o600 })
  return key
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

interface KeptDatabase {
  readonly url: string
  stop(): Promise<void>
}

/** The embedded database, started again on its port whenever it ends: the pool and the workers find it there. */
async function keepDatabase(dataDir: string, log: Log): Promise<KeptDatabase> {
  const start = (port: number) => startEmbedded({ dataDir: resolve(dataDir, 'database'), port, log })
  let server: Embedded = await start(0).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'folder_unreachable') throw elsewhere(error)
    throw error
  })
  const { url, port } = server
  const over = new AbortController()
  const ended: number[] = []
  const keeping = (async () => {
    while (!over.signal.aborted) {
      const { unexpected, reason } = await server.exited
      if (!unexpected || over.signal.aborted) return
      ended.push(systemClock.monotonicMs())
      if (ended.length > endingsMax) ended.shift()
      const { afterMs } = restartOf(ended)
      log.error({ reason, again_in_seconds: afterMs / 1_000 }, 'the database ended; it is started again')
      await systemClock.sleep(afterMs, over.signal)
      if (over.signal.aborted) return
      server = await start(port).catch((error: unknown) => {
        log.error({ err: error }, 'the database could not be started again')
        return server
      })
    }
  })()
  return {
    url,
    async stop() {
      over.abort()
      await server.stop()
      await keeping
    },
  }
}

function elsewhere(cause: Error): InvalidInput {
  return new InvalidInput(cause.message, {
    code: 'folder_unreachable',
    cause,
    hint: 'give --data DIR, a folder that PostgreSQL’s account can reach, /var/lib/bellwether for example',
  })
}
