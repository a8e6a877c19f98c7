/**
 * The ports of one fibre. Its database yields before each statement, and before and after each COMMIT or ROLLBACK; its clock is virtual; its bell
 * may fail by plan. A fibre has one connection: statements sent at the same time queue for it, as in a pool of one.
 */
import type { Clock, Random } from '@bellwether/base'
import type { Bell } from '../../src/ports/bell/bell.js'
import type { Database, Queryable, Statement } from '../../src/ports/database/database.js'
import { translateError } from '../../src/ports/database/pg-errors.js'
import type { Ids } from '../../src/ports/ids.js'
import type { Strand } from './strand.js'
import type { VirtualTime } from './time.js'

export interface Fibre {
  readonly name: string
  readonly db: Database
  readonly clock: Clock
  readonly bell: Bell
  readonly ids: Ids
  readonly random: Random
  /** An explicit yield: other fibres may run here, and this one may die here. */
  readonly yield: (label: string) => Promise<void>
  /** Crashes this fibre at its next step, as a process that kills itself. */
  readonly die: () => Promise<void>
}

/** The yield at which a fibre crashes. */
export const dying = 'dies'

/** The yield after a COMMIT, which the client does not know about yet. */
export const committed = 'committed'

export function virtualClock(time: VirtualTime): Omit<Clock, 'sleep'> {
  return { wallMs: () => Math.floor(time.wallUs / 1000), monotonicMs: () => time.monotonicUs / 1000 }
}

export function fibreClock(strand: Strand): Clock {
  return {
    ...virtualClock(strand.time),
    sleep: (ms, signal) => strand.sleep(Math.max(0, Math.ceil(ms * 1000)), signal),
  }
}

export function fibreDatabase(strand: Strand): Database {
  let turn: Promise<unknown> = Promise.resolve()
  const transaction = <T>(run: (tx: Queryable) => Promise<T>): Promise<T> => {
    const mine = turn.then(() => inTransaction(strand, run))
    // The next statement runs whether this one succeeded or not; the caller of this one gets its error.
    turn = mine.catch(() => undefined)
    return mine
  }
  return {
    transaction,
    query: <Row extends object>(statement: Statement) => transaction((tx) => tx.query<Row>(statement)),
    close: () => Promise.resolve(),
  }
}

async function inTransaction<T>(strand: Strand, run: (tx: Queryable) => Promise<T>): Promise<T> {
  let result: T
  try {
    result = await run({ query: (statement) => send(strand, statement) })
  } catch (error) {
    if (strand.inTransaction) await end(strand, 'rollback')
    throw translateError(error)
  }
  if (strand.inTransaction && (await end(strand, 'commit')) !== 'COMMIT') {
    throw new Error('The transaction was rolled back: one of its statements failed and the error was caught')
  }
  return result
}

/** The transaction begins with its first statement, in the same step. */
async function send<Row extends object>(strand: Strand, statement: Statement): Promise<Row[]> {
  const label = statement.name ?? statement.text.trim().replace(/\s+/g, ' ').slice(0, 48)
  await strand.yield(label)
  const answer = await strand.fly(label, async (wire) => {
    if (!strand.inTransaction) {
      await wire.begin(strand.tick())
      strand.inTransaction = true
    }
    return wire.query(statement)
  })
  return answer.rows as Row[]
}

async function end(strand: Strand, how: 'commit' | 'rollback'): Promise<string> {
  await strand.yield(how)
  const { command } = await strand.fly(how, (wire) => wire.query({ text: how }))
  strand.inTransaction = false
  await strand.yield(how === 'commit' ? committed : 'rolled back')
  return command
}
