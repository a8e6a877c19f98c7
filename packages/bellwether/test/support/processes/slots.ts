/**
 * Slots hold the processes of an installation: each restarts its process with the same arguments. `stop` ends all of them, also frozen
 * ones. `retryingClient` sends requests to a server that the test kills.
 */
import { defined, systemClock, systemRandom } from '@bellwether/base'
import { createKey } from '../../../src/kernel/access/api-keys.js'
import type { Database } from '../../../src/ports/database/database.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { freePort } from '../nats.js'
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

export interface Slots {
  readonly all: readonly Slot[]
  add(name: string, args: readonly string[], env?: Readonly<Record<string, string>>): Slot
  stop(): Promise<void>
}

/** Names of settings without their prefix, as the environment of a process. */
export const settingsEnv = (settings: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(settings).map(([name, value]) => [`BELLWETHER__${name}`, value]))

/** The address of a server that is to be started, with keys for its administrator and for the sensors of a view. */
export async function newServerAccess(db: Database, view: string) {
  const ports = { ids: uuidv7(systemClock, systemRandom), random: systemRandom }
  const admin = await createKey(db, ports, { role: 'admin', by: 'test' })
  const sensorKey = await createKey(db, ports, { role: 'sensor', view, by: 'test' })
  const port = await freePort()
  return { admin, sensorKey, port, url: `http://127.0.0.1:${port}`, headers: { 'x-api-key': admin.key } }
}

export function openSlots(cwd: string, env: Readonly<Record<string, string>>): Slots {
  const all: Slot[] = []
  const running = new Map<string, Cli>()

  function add(name: string, args: readonly string[], more: Readonly<Record<string, string>> = {}): Slot {
    const current = () => {
      const cli = running.get(name)
      if (cli === undefined) throw new Error(`${name} was not started`)
      return cli
    }
    const start = async () => {
      const cli = runCli([...args, '--json'], { cwd, env: { ...env, ...more } })
      running.set(name, cli)
      await cli.ready()
    }
    const end = async (signal: NodeJS.Signals) => {
      current().signal(signal)
      return current().ended
    }
    const slot: Slot = {
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
    all.push(slot)
    return slot
  }

  return {
    all,
    add,
    async stop() {
      const alive = [...running.values()].filter((cli) => cli.alive())
      for (const cli of alive) cli.signal('SIGKILL')
      await Promise.all(alive.map((cli) => cli.ended))
    },
  }
}

const requestMs = 10_000
const retryMs = 30_000

export type Ask = (
  method: string,
  path: string,
  body?: object,
  idempotencyKey?: string,
) => Promise<Record<string, unknown>>

/** Sends requests to /api/v1; while the server is unavailable or stopping, it repeats the same request, as a careful client does. */
export function retryingClient(url: string, headers: Readonly<Record<string, string>>): Ask {
  return (method, path, body, idempotencyKey) => {
    const once = async () => {
      const response = await fetch(`${url}/api/v1${path}`, {
        method,
        headers: {
          ...headers,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...defined({ 'idempotency-key': idempotencyKey }),
        },
        signal: AbortSignal.timeout(requestMs),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const result = (await response.json()) as Record<string, unknown>
      if (response.ok) return result
      if (response.status >= 500 || response.status === 429) return undefined
      throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(result)}`)
    }
    const retried = () => once().catch((error: unknown) => (isUnavailable(error) ? undefined : Promise.reject(error)))
    return until(`${method} ${path}`, retried, retryMs)
  }
}

/** fetch throws a TypeError if there is no connection or it was closed. */
const isUnavailable = (error: unknown) =>
  error instanceof TypeError || (error instanceof Error && /TimeoutError|AbortError/.test(error.name))
