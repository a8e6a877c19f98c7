/**
 * The faults of chaos: kills or freezes a worker, kills the server, kills PostgreSQL, cuts its connections. One fault at a time,
 * in an order given by the seed. Chaos resumes a frozen worker and restarts a killed server; the product recovers from
 * everything else by itself.
 */
import type { Clock, SeededRandom } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import type { Queryable } from '../database.js'
import { sendSignal } from '../processes.js'
import type { Server } from '../server.js'

export interface Target {
  readonly server: Server
  readonly db: Queryable
  readonly clock: Clock
  /** Decides the order of the faults only, so that timing does not change the order. */
  readonly order: SeededRandom
  readonly random: SeededRandom
  /** Aborts when no more faults are wanted. */
  readonly signal: AbortSignal
  say(sentence: string): void
  /** Records a fault with the database's time, before it is injected. */
  record(kind: string): Promise<void>
}

export const kinds = ['worker killed', 'worker frozen', 'connections cut', 'server killed', 'database killed'] as const
type Kind = (typeof kinds)[number]

// Longer than the processing timeout (8 s), so that the worker resumes after its turns were taken over.
const frozenMs = 10_000
// The server quarantines a part that exits six times per minute; chaos tests recovery, not quarantine.
const killsMax = 4
const killsWindowMs = 60_000
const gapMs = { least: 1_500, most: 4_000 } as const

/** Injects faults until the signal aborts. Each round contains every kind once, in a new order. */
export async function injectFaults(target: Target): Promise<void> {
  const { clock, order, random, signal } = target
  const killedMs: Record<string, number[]> = {}
  while (!signal.aborted) {
    for (const kind of order.shuffled(kinds)) {
      await clock.sleep(gapMs.least + random.next() * (gapMs.most - gapMs.least), signal)
      if (signal.aborted) return
      const recent = (killedMs[kind] ?? []).filter((at) => clock.monotonicMs() - at < killsWindowMs)
      if (recent.length >= killsMax) continue
      killedMs[kind] = [...recent, clock.monotonicMs()]
      try {
        await faults[kind](target)
      } catch (error) {
        // Skip a fault while the server still recovers from the previous one.
        if (!(error instanceof Retryable)) throw error
        target.say(`skipped "${kind}": ${error.message}`)
      }
    }
  }
}

const faults: Readonly<Record<Kind, (target: Target) => Promise<void>>> = {
  async 'worker killed'(target) {
    const pid = await pickWorker(target, 'worker killed')
    if (pid !== undefined && sendSignal(pid, 'SIGKILL')) target.say(`kill -9 ${pid}, a worker`)
  },

  async 'worker frozen'(target) {
    const pid = await pickWorker(target, 'worker frozen')
    if (pid === undefined || !sendSignal(pid, 'SIGSTOP')) return
    target.say(`kill -STOP ${pid}, a worker, for ${frozenMs / 1_000} s`)
    try {
      await target.clock.sleep(frozenMs, target.signal)
    } finally {
      sendSignal(pid, 'SIGCONT')
    }
  },

  async 'connections cut'(target) {
    await target.record('connections cut')
    const rows = await target.db.query({
      text: `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'bellwether%' and pid <> pg_backend_pid()`,
    })
    target.say(`cut ${rows.length} connections to the database`)
  },

  async 'server killed'(target) {
    const { server } = target
    if (server.upSinceMs === undefined) return
    await target.record('server killed')
    const { pid } = server.info
    await server.kill()
    target.say(`kill -9 ${pid}, the server`)
    const again = await server.start()
    target.say(`the server is up again (pid ${again.pid})`)
  },

  async 'database killed'(target) {
    const pid = target.server.databasePid()
    if (pid === undefined) return
    await target.record('database killed')
    if (sendSignal(pid, 'SIGKILL')) target.say(`kill -9 ${pid}, PostgreSQL`)
    await waitForDatabase(target)
  },
}

/** Picks a running worker and records the fault; undefined if no worker runs. */
async function pickWorker(target: Target, kind: Kind): Promise<number | undefined> {
  const workers = target.server.workers()
  if (workers.length === 0) return undefined
  await target.record(kind)
  return target.random.pick(workers)
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
