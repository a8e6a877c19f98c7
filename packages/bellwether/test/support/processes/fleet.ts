/** Starts workers and PMOs as real processes on one database, with short timings. `stop` ends all of them, also frozen ones. */
import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { target } from '../kernel.js'
import { openHold } from './hold.js'
import type { Load } from './load.js'
import { runCli, type Cli } from '../process.js'
import { testFolder } from '../postgres.js'

const agents = fileURLToPath(new URL('./fleet-agents.mjs', import.meta.url))

/**
 * Seconds. Watchdogs check every 0.5 s, so their own gap is 1.5 s. What ends a turn for good is long: a busy machine must not end one.
 */
export const timings: Readonly<Record<string, string>> = {
  WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '3',
  WORKER__WATCHDOG_INTERVAL_SECONDS: '0.5',
  WORKER__SUSPEND_TIMEOUT_SECONDS: '5',
  WORKER__RESUME_LEASE_SECONDS: '3',
  WORKER__BEAT_SECONDS: '0.5',
  WORKER__POLL_SECONDS: '1',
  WORKER__MAX_DEATHS: '50',
  WORKER__CONCURRENCY: '8',
  PMO__WATCHDOG_INTERVAL_SECONDS: '0.5',
  PMO__DISPATCHED_RETRY_SECONDS: '2',
  PMO__DISPATCHED_TIMEOUT_SECONDS: '300',
  PMO__PENDING_WAKEUP_SECONDS: '1',
  PMO__ACTIVE_REAP_SECONDS: '300',
  PMO__SUSPENDED_REAP_SECONDS: '300',
  DATABASE__POOL_SIZE: '4',
}

export interface Fleet {
  readonly workers: readonly Cli[]
  readonly pmos: readonly Cli[]
  /** Slow turns do not end until `release`. */
  hold(): Promise<void>
  release(): Promise<void>
  /** Holds slow turns; a worker that runs one, and the turn. */
  holdSlowTurn(load: Pick<Load, 'kernel'>): Promise<{ readonly worker: Cli; readonly turnId: string }>
  add(role: 'worker' | 'pmo'): Promise<Cli>
  stop(): Promise<void>
}

export interface FleetOptions {
  readonly url: string
  readonly natsUrl?: string
  readonly workers: number
  readonly pmos: number
  /** Override the default timings, for example WORKER__BEAT_SECONDS. */
  readonly timings?: Readonly<Record<string, string>>
}

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const cwd = await testFolder()
  const slowTurns = openHold(cwd)
  const settings = { ...timings, ...options.timings, DATABASE__URL: options.url, NATS__URL: options.natsUrl ?? '' }
  const env: Record<string, string> = { ...slowTurns.env }
  for (const [name, value] of Object.entries(settings)) env[`BELLWETHER__${name}`] = value
  const processes: Readonly<Record<'worker' | 'pmo', Cli[]>> = { worker: [], pmo: [] }

  async function add(role: 'worker' | 'pmo'): Promise<Cli> {
    const args = role === 'worker' ? ['--target', target, '--agents', agents] : []
    const cli = runCli([role, ...args, '--json', '--parent-pipe'], { cwd, env })
    processes[role].push(cli)
    await cli.ready()
    return cli
  }

  await Promise.all([
    ...Array.from({ length: options.workers }, () => add('worker')),
    ...Array.from({ length: options.pmos }, () => add('pmo')),
  ])
  return {
    workers: processes.worker,
    pmos: processes.pmo,
    add,
    hold: () => slowTurns.start(),
    release: () => slowTurns.release(),
    async holdSlowTurn(load) {
      await slowTurns.start()
      const alive = processes.worker.filter((cli) => cli.alive())
      const ids = await Promise.all(alive.map(async (cli) => (await cli.ready())['worker_id']))
      const held = await slowTurns.turn(load.kernel.db, ids)
      return { worker: alive[ids.indexOf(held.claimed_by)]!, turnId: held.agent_turn_id }
    },
    async stop() {
      const all = [...processes.worker, ...processes.pmo].filter((cli) => cli.alive())
      for (const cli of all) cli.signal('SIGKILL')
      await Promise.all(all.map((cli) => cli.ended))
      await rm(cwd, { recursive: true, force: true })
    },
  }
}
