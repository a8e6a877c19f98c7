/**
 * A scaled-out house as real processes: a server with a view, PMOs, workers of two targets, and sensors that share a directory, on
 * one PostgreSQL and one bell. Always: a seat is a place that a process can be put back into, with the same words; `stop` ends
 * whatever still sits.
 */
import { copyFile, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock, systemRandom } from '@bellwether/base'
import { createKey } from '../../src/kernel/access/api-keys.js'
import { migrate } from '../../src/kernel/schema/migrate.js'
import type { Database } from '../../src/ports/database/database.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { timings } from './fleet.js'
import { freePort } from './nats.js'
import { testFolder } from './postgres.js'
import { runCli, type Cli } from './process.js'
import { until } from './until.js'

export interface Seat {
  readonly name: string
  readonly cli: Cli
  /** No farewell. */
  kill(): Promise<void>
  /** Puts a process into the empty seat. */
  start(): Promise<void>
  /** SIGTERM, the end, and a new process; answers what the old one ended with. */
  replace(): Promise<number | NodeJS.Signals | null>
}

export interface Topology {
  readonly db: Database
  readonly project: string
  readonly shared: string
  readonly url: string
  readonly server: Seat
  readonly pmos: readonly Seat[]
  readonly workers: readonly Seat[]
  readonly sensors: readonly Seat[]
  readonly seats: readonly Seat[]
  /** With the administrator's key; asks until somebody answers who is not in trouble. */
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
const requestMs = 10_000
const insistMs = 30_000

export async function startTopology(place: { readonly url: string; readonly natsUrl?: string }): Promise<Topology> {
  const cwd = await testFolder()
  const shared = join(cwd, 'shared')
  await mkdir(shared)
  await mkdir(join(cwd, 'agents'))
  await copyFile(fileURLToPath(new URL('./topology-agents.mjs', import.meta.url)), join(cwd, 'agents.mjs'))
  const settings = {
    ...timings,
    DATABASE__URL: place.url,
    ...(place.natsUrl === undefined ? {} : { NATS__URL: place.natsUrl }),
    VIEW__SESSION_TIMEOUT_SECONDS: '3',
  }
  const env = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`BELLWETHER__${name}`, value]))
  const db = await openDatabase({ url: place.url, applicationName: 'the test', poolSize: 4 })
  await migrate(db)
  const ports = { ids: uuidv7(systemClock, systemRandom), random: systemRandom }
  const admin = await createKey(db, ports, { role: 'admin', by: 'test' })
  const sensorKey = await createKey(db, ports, { role: 'sensor', view, by: 'test' })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const headers = { 'x-api-key': admin.key }

  function seat(name: string, words: readonly string[]): Seat {
    let cli: Cli | undefined
    const sitting = () => {
      if (cli === undefined) throw new Error(`nobody sits in ${name}`)
      return cli
    }
    const start = async () => {
      cli = runCli([...words, '--json'], { cwd, env })
      await cli.ready()
    }
    const gone = async (signal: NodeJS.Signals) => {
      sitting().signal(signal)
      return sitting().ended
    }
    return {
      name,
      get cli() {
        return sitting()
      },
      start,
      async kill() {
        await gone('SIGKILL')
      },
      async replace() {
        const end = await gone('SIGTERM')
        if (end !== 0) process.stderr.write(`${name} ended with ${end}:\n${sitting().stderr().slice(-3_000)}\n`)
        await start()
        return end
      },
    }
  }

  const server = seat('server', ['server', '--port', String(port), '--view', view])
  const pmos = [1, 2].map((n) => seat(`pmo ${n}`, ['pmo']))
  const workers = workerTargets.map((target, n) =>
    seat(`worker ${n + 1}`, ['worker', '--target', target, '--project', project, '--agents', 'agents.mjs']),
  )
  const words = ['sensor', '--root', shared, '--server', url, '--key', sensorKey.key]
  const sensors = [1, 2].map((n) => seat(`sensor ${n}`, [...words, '--id', `host-${n}`]))
  const seats = [server, ...pmos, ...workers, ...sensors]

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
      const answer = (await response.json()) as Record<string, unknown>
      if (response.ok) return answer
      if (response.status >= 500 || response.status === 429) return undefined
      throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`)
    }
    // A server that is away or stopping: the same request again, as a careful client does.
    const insisting = () => once().catch((error: unknown) => (isAway(error) ? undefined : Promise.reject(error)))
    return until(`${method} ${path}`, insisting, insistMs)
  }

  async function stop(): Promise<void> {
    const living = seats.flatMap((one) => (sits(one)?.alive() === true ? [one.cli] : []))
    for (const cli of living) cli.signal('SIGKILL')
    await Promise.all(living.map((cli) => cli.ended))
    await db.close()
    await rm(cwd, { recursive: true, force: true })
  }

  try {
    // First of all: a sensor that meets a closed door comes back after five seconds.
    await server.start()
    await Promise.all(seats.filter((one) => one !== server).map((one) => one.start()))
  } catch (error) {
    await stop()
    throw error
  }
  return { db, project, shared, url, server, pmos, workers, sensors, seats, ask, headers, stop }
}

function sits(seat: Seat): Cli | undefined {
  try {
    return seat.cli
  } catch {
    return undefined
  }
}

/** No connection, or one that was cut: fetch says both by a TypeError. */
const isAway = (error: unknown) =>
  error instanceof TypeError || (error instanceof Error && /TimeoutError|AbortError/.test(error.name))
