/**
 * Transactions of other programs, one at a time: a snapshot that stays open, and transactions that write in another database of the
 * cluster and in a table of ours that Bellwether does not use. None of them may delay turns or events.
 */
import { type Clock, linkAbort, type SeededRandom } from '@bellwether/base'
import pg from 'pg'
import { within, type Target } from './faults.js'

export interface ForeignOptions {
  readonly databaseUrl: string
  readonly clock: Clock
  readonly random: SeededRandom
  readonly quick: boolean
  readonly signal: AbortSignal
  readonly record: Target['record']
}

const otherDatabase = 'other_program'
const kinds = ['snapshot held', 'foreign write here', 'foreign write elsewhere'] as const
const open = { full: { leastMs: 60_000, mostMs: 240_000 }, quick: { leastMs: 2_000, mostMs: 5_000 } }
const gap = { full: { leastMs: 10_000, mostMs: 60_000 }, quick: { leastMs: 500, mostMs: 1_000 } }
const connectMs = 5_000

export async function runForeignTransactions(options: ForeignOptions): Promise<void> {
  const { clock, random, signal, quick } = options
  const pace = quick ? 'quick' : 'full'
  while (!signal.aborted) {
    for (const kind of random.shuffled(kinds)) {
      const openMs = within(random, open[pace])
      const gapMs = within(random, gap[pace])
      await clock.sleep(gapMs, signal)
      if (signal.aborted) return
      await hold(options, kind, openMs)
    }
  }
}

/** A fault of the database may end the transaction early. */
async function hold(options: ForeignOptions, kind: (typeof kinds)[number], ms: number): Promise<void> {
  const { databaseUrl, clock, signal, record } = options
  const elsewhere = new URL(databaseUrl)
  elsewhere.pathname = `/${otherDatabase}`
  try {
    if (kind === 'foreign write elsewhere') await createOther(databaseUrl)
    await withClient(kind === 'foreign write elsewhere' ? elsewhere.href : databaseUrl, async (client) => {
      await record(kind, `${(ms / 1_000).toFixed(0)} s`, async () => {
        if (kind === 'snapshot held') {
          await client.query('begin isolation level repeatable read')
          await client.query('select count(*) from state.agent_state_head')
        } else {
          await client.query('create table if not exists public.notes (at timestamptz default clock_timestamp())')
          await client.query('begin')
          await client.query('insert into public.notes default values')
        }
        const over = linkAbort(signal)
        client.once('end', () => over.abort())
        await clock.sleep(ms, over.signal)
        over.release()
        await client.query('commit')
      })
    })
  } catch (error) {
    if (error instanceof pg.DatabaseError && !/^(08|53|57|25P03)/.test(error.code ?? '')) throw error
  }
}

async function createOther(databaseUrl: string): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [otherDatabase])
    if (rowCount === 0) await client.query(`create database ${otherDatabase}`)
  })
}

async function withClient(connectionString: string, act: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({
    connectionString,
    application_name: 'other program',
    connectionTimeoutMillis: connectMs,
  })
  client.on('error', () => undefined) // the next query gets its own error
  try {
    await client.connect()
    await act(client)
  } finally {
    await client.end()
  }
}
