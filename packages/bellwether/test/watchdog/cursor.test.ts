/** Reading the outbox (hazard 4): late commits are not skipped, and a cursor behind retention gets an error. */
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { beginning, readEvents } from '../../src/kernel/verbs/events.js'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { openRelay } from '../../src/pmo/relay.js'
import { notifyStream } from '../../src/ports/stream/notify.js'
import type { Ring } from '../../src/ports/bell/bell.js'
import { kernelPerTest } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

const t = kernelPerTest()
let late: pg.Client
beforeEach(async () => {
  late = new pg.Client({ connectionString: t.url })
  await late.connect()
})
afterEach(async () => {
  await late.end()
})

const insert = (name: string) => ({
  text: `insert into state.events (project_id, subject, kind, payload, created_at)
    values ('p', 'bw.v1.p.public.evt.agent.a.step', 'step', jsonb_build_object('name', $1::text), state.now())`,
  values: [name],
})
const names = (events: readonly { payload: Readonly<Record<string, unknown>> }[]) =>
  events.map((event) => event.payload.name)

/** A reader that continues from its last cursor, like SSE clients and relays. Transactions of other tests may delay its horizon. */
function reader() {
  let cursor = beginning
  const now = async () => {
    const events = await readEvents(t.db, cursor, 100)
    cursor = events.at(-1)?.cursor ?? cursor
    return names(events)
  }
  const soon = async (count: number) => {
    const all: unknown[] = []
    return until(`${count} events`, async () => {
      all.push(...(await now()))
      return all.length >= count ? all : undefined
    })
  }
  return { now, soon }
}

for (const when of ['before', 'after'] as const) {
  it(`an event of a late transaction is not skipped (inserted ${when} the others)`, async () => {
    const read = reader()
    await t.db.query(insert('first'))
    expect(await read.soon(1)).toEqual(['first'])
    await late.query('begin')
    await late.query('select pg_current_xact_id()')
    if (when === 'before') await late.query(insert('late'))
    await t.db.query(insert('second'))
    await t.db.query(insert('third'))
    if (when === 'after') await late.query(insert('late'))
    // A reader must not read past the transaction that is still open.
    expect(await read.now()).toEqual([])
    await late.query('commit')
    expect(await read.soon(3)).toEqual(['late', 'second', 'third'])
    expect(await read.now()).toEqual([])
  })
}

it('a transaction that rolls back neither blocks readers nor leaves a gap', async () => {
  const read = reader()
  await late.query('begin')
  await late.query(insert('never'))
  await t.db.query(insert('kept'))
  expect(await read.now()).toEqual([])
  await late.query('rollback')
  expect(await read.soon(1)).toEqual(['kept'])
})

it('the relay waits for a late commit', async () => {
  const rings: Ring[] = []
  const bell = {
    kind: 'notify' as const,
    ring: async (some: readonly Ring[]) => void rings.push(...some),
    listen: async () => ({ stop: async () => undefined }),
    close: async () => undefined,
  }
  const relay = openRelay({ db: t.db, log: quietLog, stream: notifyStream({ bell }) })
  await late.query('begin')
  await late.query(insert('late'))
  await t.db.query(insert('second'))
  expect(await relay.step()).toBe(0)
  await late.query('commit')
  await until('both rings', async () => {
    await relay.step()
    return rings.length >= 2 || undefined
  })
  expect(rings.map((ring) => ring.payload.cursor)).toEqual(
    (await readEvents(t.db, beginning, 10)).map((event) => event.cursor),
  )
  expect(rings).toHaveLength(2)
})

it('a cursor behind retention gets cursor_reset, never a silent gap', async () => {
  for (const name of ['one', 'two', 'three']) await t.db.query(insert(name))
  const [one, two, three] = await until('three events', async () => {
    const events = await readEvents(t.db, beginning, 10)
    return events.length === 3 ? events : undefined
  })
  await t.advance(40 * 86_400)
  await t.db.query(insert('four'))
  expect(await prune(t.db, 30)).toBeGreaterThan(0)
  for (const old of [one, two]) {
    await expect(readEvents(t.db, old!.cursor, 10)).rejects.toMatchObject({ code: 'cursor_reset' })
  }
  // The position of the last removed event loses nothing, and the beginning is always allowed.
  const rest = await until('the rest', async () => {
    const events = await readEvents(t.db, three!.cursor, 10)
    return events.length > 0 ? events : undefined
  })
  expect(names(rest)).toEqual(['four'])
  expect(names(await readEvents(t.db, beginning, 10))).toEqual(['four'])
  await expect(readEvents(t.db, 'nonsense', 10)).rejects.toMatchObject({ code: 'invalid_cursor' })
})

it('the horizon age counts the transactions of every database', async () => {
  const other = new pg.Client({ connectionString: t.url.replace(/\/[^/]*$/, '/postgres') })
  await other.connect()
  await other.query('begin')
  await other.query('select pg_current_xact_id()')
  await t.advance(1_000)
  expect((await t.one<{ age: number }>('select state.horizon_age() as age')).age).toBeGreaterThan(999)
  await other.query('rollback')
  await other.end()
})
