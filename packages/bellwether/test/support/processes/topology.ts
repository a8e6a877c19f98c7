/**
 * Starts a scaled-out installation as real processes: a server with a view, PMOs, workers of two targets, and sensors that share a
 * directory, on one PostgreSQL and one bell. A slot restarts its process with the same arguments. `stop` ends all processes.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { createKey } from '../../../src/kernel/access/api-keys.js'
import { migrate } from '../../../src/kernel/schema/migrate.js'
import type { Database } from '../../../src/ports/database/database.js'
import { openDatabase } from '../../../src/ports/database/pool.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { timings } from './fleet.js'
import { freePort } from '../nats.js'
import { testFolder } from '../postgres.js'
import { runCli, type Cli } from '../process.js'
import { until } from '../until.js'

export interface Slot {
  readonly name: string
  readonly cli: Cli
  /** Sends SIGKILL and waits for the end. */
  kill(): Promise<void>
  /** Starts a process in the empty slot. */
  start(): Promise<void>
  /** Sends SIGTERM, waits for the end and starts a new process; returns how the old one ended. */
  replace(): Promise<number | NodeJS.Signals | null>
}

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
  /** Sends a request with the administrator's key; repeats it while the server is unavailable. */
  readonly ask: (
    method: string,
    path: string,
    body?: object,
    idempotencyKey?: string,
  ) => Promise<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>
  stop(): Promise<void>
}

const project = 'scale'
const view = 'shared'
const workerTargets = ['quick', 'quick', 'tooled', 'tooled']
const agents = fileURLToPath(new URL('./topology-agents.mjs', import.meta.url))
const requestMs = 10_000
const retryMs = 30_000

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
  const env = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`BELLWETHER__${name}`, value]))
  const db = await openDatabase({ url: address.url, applicationName: 'test', poolSize: 4 })
  await migrate(db)
  const ports = { ids: uuidv7(systemClock, systemRandom), random: systemRandom }
  const admin = await createKey(db, ports, { role: 'admin', by: 'test' })
  const sensorKey = await createKey(db, ports, { role: 'sensor', view, by: 'test' })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const headers = { 'x-api-key': admin.key }

  function slot(name: string, args: readonly string[]): Slot {
    let cli: Cli | undefined
    const current = () => {
      if (cli === undefined) throw new Error(`${name} was not started`)
      return cli
    }
    const start = async () => {
      cli = runCli([...args, '--json'], { cwd, env })
      await cli.ready()
    }
    const end = async (signal: NodeJS.Signals) => {
      current().signal(signal)
      return current().ended
    }
    return {
      name,
      get cli() {
        return current()
      },
      start,
      async kill() {
        await end('SIGKILL')
      },
      async replace() {
        const result = await end('SIGTERM')
        if (result !== 0) process.stderr.write(`${name} ended with ${result}:\n${current().stderr().slice(-3_000)}\n`)
        await start()
        return result
      },
    }
  }

  const server = slot('server', ['server', '--port', String(port), '--view', view])
  const pmos = [1, 2].map((n) => slot(`pmo ${n}`, ['pmo']))
  const workers = workerTargets.map((target, n) =>
    slot(`worker ${n + 1}`, ['worker', '--target', target, '--project', project, '--agents', agents]),
  )
  const sensorArgs = ['sensor', '--root', shared, '--server', url, '--key', sensorKey.key]
  const sensors = [1, 2].map((n) => slot(`sensor ${n}`, [...sensorArgs, '--id', `host-${n}`]))
  const slots = [server, ...pmos, ...workers, ...sensors]

  async function ask(method: string, path: string, body?: object, idempotencyKey?: string) {
    const once = async () => {
      const response = await fetch(`${url}/api/v1${path}`, {
        method,
        headers: {
          ...headers,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
        },
        signal: AbortSignal.timeout(requestMs),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const result = (await response.json()) as Record<string, unknown>
      if (response.ok) return result
      if (response.status >= 500 || response.status === 429) return undefined
      throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(result)}`)
    }
    // While the server is unavailable or stopping, repeat the same request, as a careful client does.
    const retried = () => once().catch((error: unknown) => (isUnavailable(error) ? undefined : Promise.reject(error)))
    return until(`${method} ${path}`, retried, retryMs)
  }

  async function stop(): Promise<void> {
    const alive = slots.flatMap((one) => (processOf(one)?.alive() === true ? [one.cli] : []))
    for (const cli of alive) cli.signal('SIGKILL')
    await Promise.all(alive.map((cli) => cli.ended))
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
  return { db, project, shared, url, server, pmos, workers, sensors, slots, ask, headers, stop }
}

function processOf(slot: Slot): Cli | undefined {
  try {
    return slot.cli
  } catch {
    return undefined
  }
}

/** fetch throws a TypeError if there is no connection or it was closed. */
const isUnavailable = (error: unknown) =>
  error instanceof TypeError || (error instanceof Error && /TimeoutError|AbortError/.test(error.name))
