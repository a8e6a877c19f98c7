/**
 * The process faults of chaos: freezes and kills one process at a time, in an order given by the seed; each round contains every
 * fault once. Chaos continues what it froze and restarts a killed server; the product recovers from everything else by itself.
 */
import type { Clock, SeededRandom } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import type { Queryable } from '../database.js'
import { familyOf, processesIn, readProcesses, sendSignal } from '../processes.js'
import type { Setup } from '../setup.js'
import type { Companions } from './companions.js'
import { roles, type Processes, type Role } from './roles.js'

export interface Target {
  readonly setup: Setup
  readonly companions: Companions
  readonly processes: Processes
  readonly db: Queryable
  readonly clock: Clock
  /** Decides the order of the faults only, so that timing does not change the order. */
  readonly order: SeededRandom
  readonly random: SeededRandom
  readonly pace: Pace
  /** Aborts when no more faults are wanted. */
  readonly signal: AbortSignal
  readonly say: (sentence: string) => void
  /** Runs a fault and notes it, with its duration, in the schedule. */
  readonly record: (kind: string, detail: string, run: () => Promise<void>) => Promise<void>
  readonly violation: (sentence: string) => void
}

interface Range {
  readonly leastMs: number
  readonly mostMs: number
}

export interface Pace {
  readonly frozen: Range
  readonly gap: Range
  /** Faults that another one of the round includes. */
  readonly without?: readonly Kind[]
}

/** `quick` is for a round of less than a minute. */
export const paces: Readonly<Record<'full' | 'quick', Pace>> = {
  full: { frozen: { leastMs: 30_000, mostMs: 90_000 }, gap: { leastMs: 8_000, mostMs: 20_000 } },
  quick: {
    frozen: { leastMs: 300, mostMs: 1_000 },
    gap: { leastMs: 100, mostMs: 400 },
    // Starting the server costs the most time, and "all killed at once" kills it too.
    without: ['server killed'],
  },
}

type Kind =
  | `${Role} frozen`
  | `${Exclude<Role, 'database' | 'machine'>} killed`
  | 'connections cut'
  | 'all killed at once'

const kinds: readonly Kind[] = [
  ...roles.map((role) => `${role} frozen` as const),
  ...roles.flatMap((role) => (role === 'database' || role === 'machine' ? [] : [`${role} killed` as const])),
  'connections cut',
  'all killed at once',
]

export const within = (random: SeededRandom, { leastMs, mostMs }: Range) =>
  Math.round(leastMs + random.next() * (mostMs - leastMs))

/** Injects every fault once, in a new order. */
export async function injectRound(target: Target): Promise<void> {
  const { clock, order, random, pace, signal } = target
  for (const kind of order.shuffled(kinds.filter((one) => pace.without?.includes(one) !== true))) {
    await clock.sleep(within(random, pace.gap), signal)
    if (signal.aborted) return
    await injectWhenPossible(target, kind)
  }
}

/** The server may still recover from the fault before. */
async function injectWhenPossible(target: Target, kind: Kind): Promise<void> {
  const { clock, signal } = target
  const untilMs = clock.monotonicMs() + absentMs
  while (!signal.aborted) {
    try {
      return await inject(target, kind)
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      if (clock.monotonicMs() > untilMs) return target.say(`skipped "${kind}": ${error.message}`)
    }
    await clock.sleep(pollMs, signal)
  }
}

async function inject(target: Target, kind: Kind): Promise<void> {
  if (kind === 'connections cut') return cutConnections(target)
  if (kind === 'all killed at once') {
    await runningGroups(target, 'server')
    return killAll(target)
  }
  const role = kind.slice(0, kind.lastIndexOf(' ')) as Role
  const groups = await runningGroups(target, role)
  if (groups.length === 0) return
  const pids = target.random.pick(groups)
  if (kind.endsWith('frozen')) return freeze(target, kind, pids)
  if (role === 'server') return killServer(target, kind, [])
  return target.record(kind, String(pids), async () => {
    for (const pid of pids) sendSignal(pid, 'SIGKILL')
    if (role === 'postmaster' || role === 'backend') await waitForDatabase(target)
  })
}

// A worker, and what it starts, is restarted with growing pauses after several deaths.
const absentMs = 120_000

/** Waits for a process of the role, which the fault before may have ended. Every role must come back. */
async function runningGroups({ processes, clock, signal, violation }: Target, role: Role): Promise<number[][]> {
  const untilMs = clock.monotonicMs() + absentMs
  for (;;) {
    const groups = processes.groups(role)
    if (groups.length > 0 || signal.aborted) return groups
    if (clock.monotonicMs() > untilMs) {
      violation(`no ${role} has been running for ${absentMs / 1_000} s`)
      return []
    }
    await clock.sleep(pollMs, signal)
  }
}

async function freeze(target: Target, kind: string, pids: readonly number[]): Promise<void> {
  const ms = within(target.random, target.pace.frozen)
  const names = pids.length > 3 ? `${pids.length} processes` : String(pids)
  await target.record(kind, `${names} for ${(ms / 1_000).toFixed(0)} s`, async () => {
    for (const pid of pids) sendSignal(pid, 'SIGSTOP')
    try {
      await target.clock.sleep(ms, target.signal)
    } finally {
      for (const pid of pids) sendSignal(pid, 'SIGCONT')
    }
  })
}

async function cutConnections({ db, record }: Target): Promise<void> {
  await record('connections cut', 'all', async () => {
    await db.query({
      text: `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'bellwether%' and pid <> pg_backend_pid()`,
    })
  })
}

/** Kills the server, and `pids` at the same time, and starts it again, as a service manager would. */
async function killServer(
  target: Target,
  kind: string,
  pids: readonly number[],
  before = async () => undefined as void,
): Promise<void> {
  const { server } = target.setup
  if (server.upSinceMs === undefined) return
  await target.record(kind, [server.info.pid, ...pids].join(), async () => {
    const killed = server.kill()
    for (const pid of pids) sendSignal(pid, 'SIGKILL')
    await killed
    await before()
    const { pid } = await server.start()
    target.say(`the server is up again (pid ${pid})`)
  })
}

// A cleaner waits 4 s for the guardian and then kills what is left; its scans take several seconds on a busy machine.
const cleanMs = 30_000

/** Kills the server, its workers and their guardians at the same time. No process of a command may be left. */
async function killAll(target: Target): Promise<void> {
  const { setup, companions, processes, clock } = target
  const pids = [...setup.server.workers(), ...processes.groups('guardian').flat()]
  const left = () => {
    const rows = readProcesses()
    const others = new Set(familyOf(rows, [...companions.functionWorkers(), ...companions.sensors()]))
    return processesIn(rows, setup.folder.project).filter((row) => !others.has(row))
  }
  await killServer(target, 'all killed at once', pids, async () => {
    const untilMs = clock.monotonicMs() + cleanMs
    while (left().length > 0 && clock.monotonicMs() < untilMs) await clock.sleep(pollMs)
    for (const { pid, command } of left())
      target.violation(`process ${pid} (${command.join(' ').trim()}) is left after everything was killed`)
  })
}

const restartMaxMs = 60_000
const pollMs = 200

/** Waits until the database answers, so that the effects of two faults do not overlap. */
async function waitForDatabase({ db, clock }: Target): Promise<void> {
  const untilMs = clock.monotonicMs() + restartMaxMs
  for (;;) {
    try {
      await db.query({ text: 'select 1' })
      return
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      if (clock.monotonicMs() > untilMs)
        throw new Terminal(`PostgreSQL did not restart within ${restartMaxMs / 1_000} s`, {
          code: 'database_away',
          cause: error,
        })
    }
    await clock.sleep(pollMs)
  }
}
