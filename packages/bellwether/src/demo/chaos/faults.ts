/**
 * What chaos does to a house: kills a worker, freezes one, kills the house, kills the database, cuts its connections. Always: one at a
 * time; what was frozen is let go again; a house that was killed is started again here, because nobody else would; everything
 * else the house has to mend itself. Which one comes when is dealt from a seed.
 */
import type { Clock } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'
import type { House } from '../house.js'
import type { SeededRandom } from '@bellwether/base'

export interface World {
  readonly house: House
  readonly db: Queryable
  readonly clock: Clock
  /** For the order of the faults and nothing else: how long anything took must not change it. */
  readonly deck: SeededRandom
  readonly dice: SeededRandom
  /** Fires when the attacks are to end. */
  readonly over: AbortSignal
  say(sentence: string): void
  /** Notes a fault with the database's own time, before it strikes. */
  note(kind: string): Promise<void>
}

export const kinds = ['worker killed', 'worker frozen', 'connections cut', 'house killed', 'database killed'] as const
type Kind = (typeof kinds)[number]

// Longer than the silence after which a worker is taken for dead (8 s): it must wake up to find its turns gone.
const frozenMs = 10_000
// The house puts a part in quarantine that ends six times a minute; chaos shows recovery, not quarantine.
const killsMax = 4
const killsWindowMs = 60_000
const gapMs = { least: 1_500, most: 4_000 } as const

/** Strikes until told otherwise: a round deals every kind once, in an order of its own. */
export async function strike(world: World): Promise<void> {
  const { clock, deck, dice, over } = world
  const killedMs: Record<string, number[]> = {}
  while (!over.aborted) {
    for (const kind of deck.shuffled(kinds)) {
      await clock.sleep(gapMs.least + dice.next() * (gapMs.most - gapMs.least), over)
      if (over.aborted) return
      const recent = (killedMs[kind] ?? []).filter((at) => clock.monotonicMs() - at < killsWindowMs)
      if (recent.length >= killsMax) continue
      killedMs[kind] = [...recent, clock.monotonicMs()]
      try {
        await faults[kind](world)
      } catch (error) {
        // A fault that finds the house still mending the last one is not made; the next one will be.
        if (!(error instanceof Retryable)) throw error
        world.say(`${kind}: not now (${error.message})`)
      }
    }
  }
}

const faults: Readonly<Record<Kind, (world: World) => Promise<void>>> = {
  async 'worker killed'(world) {
    const pid = await victim(world, 'worker killed')
    if (pid !== undefined && signal(pid, 'SIGKILL')) world.say(`kill -9 ${pid}, a worker`)
  },

  async 'worker frozen'(world) {
    const pid = await victim(world, 'worker frozen')
    if (pid === undefined || !signal(pid, 'SIGSTOP')) return
    world.say(`kill -STOP ${pid}, a worker, for ${frozenMs / 1_000} s`)
    try {
      await world.clock.sleep(frozenMs, world.over)
    } finally {
      signal(pid, 'SIGCONT')
    }
  },

  async 'connections cut'(world) {
    await world.note('connections cut')
    const rows = await world.db.query({
      text: `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'bellwether%' and pid <> pg_backend_pid()`,
    })
    world.say(`${rows.length} connections to the database are cut`)
  },

  async 'house killed'(world) {
    const { house } = world
    if (house.upSinceMs === undefined) return
    await world.note('house killed')
    const { pid } = house.facts
    await house.kill()
    world.say(`kill -9 ${pid}, the whole house`)
    const again = await house.start()
    world.say(`the house is up again (pid ${again.pid})`)
  },

  async 'database killed'(world) {
    const pid = world.house.databasePid()
    if (pid === undefined) return
    await world.note('database killed')
    if (signal(pid, 'SIGKILL')) world.say(`kill -9 ${pid}, PostgreSQL`)
    await answering(world)
  },
}

/** A worker that lives, noted; undefined: none does, and nothing is noted. */
async function victim(world: World, kind: Kind): Promise<number | undefined> {
  const pid = world.dice.pick(world.house.workers())
  if (pid !== undefined) await world.note(kind)
  return pid
}

const answerMaxMs = 60_000
const lookMs = 200

/** Waits until the database answers: two deaths at once would hide what came of the first. */
async function answering({ db, clock }: World): Promise<void> {
  const untilMs = clock.monotonicMs() + answerMaxMs
  for (;;) {
    try {
      await db.query({ text: 'select 1' })
      return
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      if (clock.monotonicMs() > untilMs)
        throw new Terminal(`the database did not come back within ${answerMaxMs / 1_000} s`, {
          code: 'database_away',
          cause: error,
        })
    }
    await clock.sleep(lookMs)
  }
}

/** False where the process has gone meanwhile. */
function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false
    throw error
  }
}
