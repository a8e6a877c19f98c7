/**
 * Starts a scaled-out installation as real processes: a server with a view, PMOs, workers of two targets, and sensors that share a
 * directory, on one PostgreSQL and one bell. `stop` ends all processes.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defined } from '@bellwether/base'
import { migrate } from '../../../src/kernel/schema/migrate.js'
import type { Database } from '../../../src/ports/database/database.js'
import { openDatabase } from '../../../src/ports/database/pool.js'
import { timings } from './fleet.js'
import { openHold, type Hold } from './hold.js'
import { testFolder } from '../postgres.js'
import { newServerAccess, openSlots, retryingClient, settingsEnv, type Ask, type Slot } from './slots.js'

export interface Topology {
  readonly db: Database
  readonly project: string
  readonly shared: string
  readonly url: string
  readonly server: Slot
  readonly pmos: readonly Slot[]
  readonly workers: readonly Slot[]
  readonly sensors: readonly Slot[]
  readonly slots: readonly Slot[]
  /** Sends a request with the administrator's key. */
  readonly ask: Ask
  readonly headers: Readonly<Record<string, string>>
  readonly slowTurns: Hold
  stop(): Promise<void>
}

const project = 'scale'
const view = 'shared'
const workerTargets = ['quick', 'quick', 'tooled', 'tooled']
const agents = fileURLToPath(new URL('./topology-agents.mjs', import.meta.url))

export async function startTopology(address: { readonly url: string; readonly natsUrl?: string }): Promise<Topology> {
  const cwd = await testFolder()
  const shared = join(cwd, 'shared')
  await mkdir(shared)
  await mkdir(join(cwd, 'agents'))
  const settings = {
    ...timings,
    DATABASE__URL: address.url,
    ...defined({ NATS__URL: address.natsUrl }),
    VIEW__SESSION_TIMEOUT_SECONDS: '3',
  }
  const db = await openDatabase({ url: address.url, applicationName: 'test', poolSize: 4 })
  await migrate(db)
  const { sensorKey, port, url, headers } = await newServerAccess(db, view)

  const slowTurns = openHold(cwd)
  const processes = openSlots(cwd, { ...settingsEnv(settings), ...slowTurns.env })
  const slot = (name: string, args: readonly string[]) => processes.add(name, args)
  const server = slot('server', ['server', '--port', String(port), '--view', view])
  const pmos = [1, 2].map((n) => slot(`pmo ${n}`, ['pmo']))
  const workers = workerTargets.map((target, n) =>
    slot(`worker ${n + 1}`, ['worker', '--target', target, '--project', project, '--agents', agents]),
  )
  const sensorArgs = ['sensor', '--root', shared, '--server', url, '--key', sensorKey.key]
  const sensors = [1, 2].map((n) => slot(`sensor ${n}`, [...sensorArgs, '--id', `host-${n}`]))
  const slots = processes.all

  const ask = retryingClient(url, headers)

  async function stop(): Promise<void> {
    await processes.stop()
    await db.close()
    await rm(cwd, { recursive: true, force: true })
  }

  try {
    // The server starts first, because a sensor retries a refused connection only after five seconds.
    await server.start()
    await Promise.all(slots.filter((one) => one !== server).map((one) => one.start()))
  } catch (error) {
    await stop()
    throw error
  }
  return { db, project, shared, url, server, pmos, workers, sensors, slots, ask, headers, slowTurns, stop }
}
