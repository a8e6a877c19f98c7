/**
 * `bellwether up`: everything on one machine. The database (embedded unless one is named), the PMO, the autopilot, the HTTP server
 * with the workspace view and the sensor live in this process; workers are child processes, one for each worker target that an
 * agent names. Always: the parts share one house and one end, and when one of them cannot be opened the others are closed in order;
 * a worker that dies is started again, and so is an embedded database, on its port; one `up` a data folder; after kill -9 of this
 * process its children go by themselves and the next start takes the database over.
 */
import { setMaxListeners } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Log, systemClock, systemRandom } from '@bellwether/base'
import { startSensor } from '@bellwether/sensor'
import { createKey, hashKey, readLiveKeys } from '../kernel/access/api-keys.js'
import { takeFolderLock } from '../ports/database/folder-lock.js'
import { loop } from '../ports/loop.js'
import type { Settings } from '../settings/schema.js'
import { runAutopilotPart } from './autopilot.js'
import { openCrew } from './local-workers.js'
import { excludedOf } from './view-excludes.js'
import { openHouse, type House } from './runtime.js'
import { keepDatabase, type KeptDatabase } from './database-supervisor.js'
import type { Lifeline } from './shutdown.js'
import { tidyWhenIdle, workerFlags } from './heap-tuning.js'
import { lockFile, sensorKeyFile, upFile } from './paths.js'
import { runPmoPart } from './pmo.js'
import { ensureFirstKey, runServer } from './server.js'
import { openSupervisor } from './supervisor.js'
import { openHouseMetrics } from './telemetry.js'
import { openUpFile } from './up-file.js'

export interface UpFlags {
  readonly folder: string
  readonly dataDir: string
  readonly projectId: string
  /** What node runs to be this program again. */
  readonly program: readonly string[]
  readonly host?: string
  readonly port?: number
  readonly onReady: (facts: Readonly<Record<string, unknown>>) => void
}

export interface UpOptions extends UpFlags {
  readonly settings: Settings
  readonly log: Log
  readonly lifeline: Lifeline
  /** Of the workers. */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The one view of `up`: the project folder. */
const projectView = 'project'
// Agents are put on the roster within seconds of their file; their workers may take as long.
const lookMs = 5_000

export async function runUp(options: UpOptions): Promise<number> {
  const { log, lifeline, dataDir } = options
  const changes = new Set<() => void>()
  const told = () => changes.forEach((tell) => tell())
  const named = options.settings.database.url
  // The embedded database brings a lock of its own; without it two of us would write one board and one up.json.
  const lock = named === undefined ? undefined : await takeFolderLock(join(dataDir, lockFile))
  try {
    const database = named === undefined ? await keepDatabase(dataDir, log, told) : undefined
    const url = named ?? database!.url
    const settings = { ...options.settings, database: { ...options.settings.database, url } }
    try {
      if (lifeline.signal.aborted) return 0
      const house = await openHouse({
        settings,
        log,
        clock: systemClock,
        random: systemRandom,
        name: 'bellwether up',
        signal: lifeline.signal,
      })
      try {
        return await inHouse({ ...options, settings, url, database, changes }, house)
      } finally {
        await house.close()
      }
    } catch (error) {
      // Told to stop before it was there.
      if (lifeline.signal.aborted && error instanceof Error && 'code' in error && error.code === 'stopped') return 0
      throw error
    } finally {
      await database?.stop()
    }
  } finally {
    await lock?.release()
  }
}

interface HouseholdOptions extends UpOptions {
  readonly url: string
  readonly database: KeptDatabase | undefined
  /** Who is told when a part comes or goes. */
  readonly changes: Set<() => void>
}

async function inHouse(options: HouseholdOptions, house: House): Promise<number> {
  const { folder, dataDir, projectId, settings, log, lifeline, database, changes } = options
  // Of the parts' own, so that those that are open end when another cannot be opened.
  const over = new AbortController()
  const { signal } = over
  setMaxListeners(0, signal) // everything in the house waits on it
  const end = () => over.abort(lifeline.signal.reason)
  lifeline.signal.addEventListener('abort', end, { once: true })
  if (lifeline.signal.aborted) end()
  const supervisor = openSupervisor({
    clock: systemClock,
    log,
    onChange: () => changes.forEach((tell) => tell()),
  })
  const allParts = () => [...(database === undefined ? [] : [database.part]), ...supervisor.parts]
  const parts = { house, settings, log, signal, folder, projectId, env: options.env }
  const root = settings.board.root ?? '.'
  const file = openUpFile(dataDir)
  // The administrator's comes first of all, and both before the server reads the keys that it knows.
  await ensureFirstKey(house.kernel.db, house.kernel.ids, dataDir)
  const key = await sensorKey(house, dataDir)
  const metrics = await openHouseMetrics(house, log)
  let running: readonly Promise<unknown>[] = []
  try {
    let ready = (_facts: Readonly<Record<string, unknown>>): void => undefined
    const listening = new Promise<Readonly<Record<string, unknown>>>((resolved) => (ready = resolved))
    running = [
      runPmoPart(parts),
      runServer({
        ...parts,
        dataDir,
        root,
        views: [projectView],
        metrics: () => metrics.text(),
        parts: allParts,
        ...(options.host === undefined ? {} : { host: options.host }),
        ...(options.port === undefined ? {} : { port: options.port }),
        onReady: ready,
      }),
      runAutopilotPart({ ...parts, root }),
    ]
    const all = Promise.all(running)
    // A part that cannot be opened ends the start, in its own words.
    const facts: Readonly<Record<string, unknown>> = await Promise.race([listening, all.then(() => ({}))])
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
      exclude: excludedOf({ folder, dataDir, boardRoot: root, globs: settings.view.exclude }),
    })
    try {
      const crew = openCrew({
        folder,
        projectId,
        member: {
          program: [...workerFlags, ...options.program],
          env: { ...options.env, BELLWETHER__DATABASE__URL: options.url },
          folder,
          signal,
        },
        supervisor,
        log,
        signal,
      })
      await Promise.race([crew.look(), all])
      if (signal.aborted) return 0
      const upFacts = { url: server, pid: process.pid, project: projectId, databaseUrl: options.url }
      const write = () => file.write(upFacts, supervisor.parts)
      write()
      changes.add(() => {
        // Its readers do without: a full disk must not end the house.
        try {
          if (!signal.aborted) write()
        } catch (error) {
          log.warn({ err: error }, `${upFile} could not be written`)
        }
      })
      options.onReady({ ...facts, ready: true, role: 'up', databaseUrl: options.url, dataDir })
      const steady = { name: 'worker targets', clock: systemClock, log, signal, intervalMs: lookMs, steady: true }
      await Promise.all([all, loop(steady, () => crew.look()), tidyWhenIdle({ clock: systemClock, log, signal })])
      return 0
    } finally {
      await sensor.stop()
    }
  } finally {
    over.abort()
    lifeline.signal.removeEventListener('abort', end)
    file.remove()
    await supervisor.stop(lifeline.orphaned())
    await Promise.allSettled(running)
  }
}

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
