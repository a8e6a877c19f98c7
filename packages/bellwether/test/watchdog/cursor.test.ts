/** Reading the outbox (hazard 4): late commits are not skipped, and a cursor behind retention gets an error. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { beginning, outboxEnd, readEvents } from '../../src/kernel/verbs/events.js'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { openRelay } from '../../src/pmo/relay.js'
import { notifyStream } from '../../src/ports/stream/notify.js'
import type { Ring } from '../../src/ports/bell/bell.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { deliverTurn } from '../support/kernel-turns.js'
import { quietLog } from '../support/quiet-log.js'
import { silentBell } from '../support/silent-bell.js'
import { untilLockWait } from '../support/lock-wait.js'

const t = kernelPerFile()
let late: pg.Client
/** Where the test began. */
let start = beginning
let read: () => Promise<unknown[]>
beforeEach(async () => {
  late = new pg.Client({ connectionString: t.url })
  await late.connect()
  start = (await outboxEnd(t.db)).newest
  read = reader()
})
afterEach(async () => {
  await late.end()
})

const insert = (name: string) => ({
  text: `insert into state.outbox (project_id, subject, kind, payload, created_at)
    values ('p', 'bw.v1.p.public.evt.agent.a.step', 'step', jsonb_build_object('name', $1::text), state.now())`,
  values: [name],
})
const names = (events: readonly { payload: Readonly<Record<string, unknown>> }[]) =>
  events.map((event) => event.payload.name)

/** A reader that continues from its last cursor, like SSE clients and relays. */
function reader() {
  let cursor = start
  return async () => {
    const events = await readEvents(t.db, cursor, 100)
    cursor = events.at(-1)?.cursor ?? cursor
    return names(events)
  }
}

it('an event of a late transaction is not skipped', async () => {
  await t.db.query(insert('first'))
  expect(await read()).toEqual(['first'])
  await late.query('begin')
  await late.query(insert('late'))
  await t.db.query(insert('second'))
  await t.db.query(insert('third'))
  // A reader must not read past the transaction that is still open.
  expect(await read()).toEqual([])
  await late.query('commit')
  expect(await read()).toEqual(['late', 'second', 'third'])
  expect(await read()).toEqual([])
})

it('a transaction that rolls back neither blocks readers nor leaves a gap', async () => {
  await late.query('begin')
  await late.query(insert('never'))
  await t.db.query(insert('kept'))
  expect(await read()).toEqual([])
  await late.query('rollback')
  expect(await read()).toEqual(['kept'])
})

it('readers wait for a writer in the middle of its first statement', async () => {
  const gate = new pg.Client({ connectionString: t.url })
  await gate.connect()
  await gate.query('select pg_advisory_lock(7)')
  const writing = late.query(`insert into state.outbox (project_id, subject, kind, payload, created_at)
    select 'p', 's', 'step', jsonb_build_object('name', 'late' || n,
      'wait', case when n = 2 then pg_advisory_xact_lock(7)::text end), state.now() from generate_series(1, 2) n`)
  await untilLockWait(t.db, 'the writer waits between its rows')
  await t.db.query(insert('second'))
  expect(await read()).toEqual([])
  await gate.end()
  await writing
  expect(await read()).toEqual(['late1', 'second', 'late2'])
})

it('an id that is assigned after the reader looked for writers is not skipped', async () => {
  await t.db.query(insert('first'))
  const [gate, slow] = [new pg.Client({ connectionString: t.url }), new pg.Client({ connectionString: t.url })]
  await Promise.all([gate.connect(), slow.connect()])
  await gate.query('select pg_advisory_lock(8)')
  // A copy of pg_locks that waits after it was read.
  await slow.query(`create schema shadow;
    create function shadow.slow_locks() returns setof pg_catalog.pg_locks language plpgsql as $$ begin
      return query select * from pg_catalog.pg_locks;
      perform pg_advisory_xact_lock(8);
    end $$;
    create view shadow.pg_locks as select * from shadow.slow_locks();
    set search_path = shadow, pg_catalog`)
  const [xid, id] = start.split(':')
  const reading = slow.query<{ cursor: string }>(
    `select xid || ':' || event_id as cursor from state.read_events($1::text::xid8, $2::bigint, 10)`,
    [xid, id],
  )
  await untilLockWait(t.db, 'the reader waits')
  await late.query('begin')
  await late.query(insert('late'))
  await t.db.query(insert('third'))
  await gate.end()
  const { rows } = await reading
  await late.query('commit')
  expect(names(await readEvents(t.db, rows.at(-1)!.cursor, 10))).toEqual(['late', 'third'])
  await slow.query('drop schema shadow cascade')
  await slow.end()
})

it('savepoints and later statements of a transaction keep its place', async () => {
  await late.query('begin')
  await late.query('savepoint a')
  await late.query(insert('undone'))
  await late.query('rollback to a')
  // The only insert was undone: the transaction is not a writer any more.
  await t.db.query(insert('first'))
  expect(await read()).toEqual(['first'])
  await late.query('savepoint b')
  await late.query(insert('second'))
  await late.query('release b')
  await t.db.query(insert('third'))
  await late.query(insert('fourth'))
  expect(await read()).toEqual([])
  await late.query('commit')
  expect(await read()).toEqual(['second', 'third', 'fourth'])
  const { locks } = await t.one<{ locks: number }>(`select count(*)::int as locks from pg_locks
    where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
  expect(locks).toBe(0)
})

it('readers wait for a prepared transaction that wrote events', async () => {
  await late.query('begin')
  await late.query(insert('prepared'))
  await late.query("prepare transaction 'outbox writer'")
  await t.db.query(insert('second'))
  expect(await read()).toEqual([])
  await late.query("commit prepared 'outbox writer'")
  expect(await read()).toEqual(['prepared', 'second'])
})

describe('transactions that do not write to the outbox', () => {
  const elsewhere = () => new pg.Client({ connectionString: t.url.replace(/\/[^/]*$/, '/postgres') })
  const strangers: Record<string, () => Promise<() => Promise<unknown>>> = {
    'a writing transaction in another database': async () => {
      const other = elsewhere()
      await other.connect()
      await other.query('begin; select pg_current_xact_id()')
      return () => other.end()
    },
    'a writing transaction in this database': async () => {
      await late.query('begin; select pg_current_xact_id(); create table public.strange (id int)')
      return () => late.query('rollback')
    },
    'a held snapshot': async () => {
      await late.query('begin isolation level repeatable read; select count(*) from state.events')
      return () => late.query('rollback')
    },
    'a prepared transaction': async () => {
      await late.query("begin; select pg_current_xact_id(); prepare transaction 'a stranger'")
      return () => late.query("rollback prepared 'a stranger'")
    },
    'an advisory lock with a small key': async () => {
      await late.query('select pg_advisory_lock(1), pg_advisory_lock(1, 1)')
      return () => late.query('select pg_advisory_unlock_all()')
    },
  }
  for (const [name, open] of Object.entries(strangers)) {
    it(`[T9.1] ${name} delays neither readers nor the relay, which sends tool commands`, async () => {
      await t.db.query(insert('before'))
      const close = await open()
      try {
        await t.db.query(insert('first'))
        expect(await read()).toEqual(['before', 'first'])
        expect((await outboxEnd(t.db)).readable).toBe((await readEvents(t.db, start, 9)).at(-1)!.cursor)
        expect((await t.one<{ age: number }>('select state.horizon_age() as age')).age).toBe(0)
        const relay = openRelay({ db: t.db, log: quietLog, stream: notifyStream({ bell: silentBell }) })
        await relay.step()
        await t.db.query(insert('second'))
        expect(await relay.step()).toBe(1)
      } finally {
        await close()
      }
    })
  }

  it('a transaction that begins to write events later delays readers from then on', async () => {
    await late.query('begin; select pg_current_xact_id()')
    await t.db.query(insert('first'))
    expect(await read()).toEqual(['first'])
    await late.query(insert('second'))
    await t.db.query(insert('third'))
    expect(await read()).toEqual([])
    await late.query('commit')
    expect(await read()).toEqual(['second', 'third'])
  })
})

it('readers with a fixed snapshot get an error, because they would skip events', async () => {
  await t.db.query(insert('first'))
  await late.query('begin isolation level repeatable read')
  await late.query('select count(*) from state.events')
  await t.db.query(insert('second'))
  await expect(late.query("select * from state.read_events('0', 0, 10)")).rejects.toMatchObject({ code: 'BW005' })
  await late.query('rollback')
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
  await relay.step()
  rings.length = 0
  await late.query('begin')
  await late.query(insert('late'))
  await t.db.query(insert('second'))
  expect(await relay.step()).toBe(0)
  await late.query('commit')
  expect(await relay.step()).toBe(2)
  expect(rings.map((ring) => ring.payload.cursor)).toEqual(
    (await readEvents(t.db, start, 10)).map((event) => event.cursor),
  )
  expect(rings).toHaveLength(2)
})

it('[T2.5] a reader whose page ends between the task event and the state event of an ending gets both, once', async () => {
  await t.agents('ender')
  await deliverTurn(t, await t.running('ender'))
  const all = await readEvents(t.db, start, 100)
  expect(all.map(({ kind, payload }) => [kind, payload.status].join(' '))).toEqual([
    'state dispatched',
    'state running',
    'task success',
    'state idle',
  ])
  const one = []
  for (let cursor = start; ; cursor = one.at(-1)!.cursor) {
    const [event] = await readEvents(t.db, cursor, 1)
    if (event === undefined) break
    one.push(event)
  }
  expect(one).toEqual(all)
  const viewed = await t.all<{ event_id: number; kind: string; payload: unknown; subject: string }>(
    `select event_id, kind, payload, subject from state.events
      where (xid, event_id) > (split_part($1, ':', 1)::xid8, split_part($1, ':', 2)::bigint) order by xid, event_id`,
    start,
  )
  expect(viewed).toEqual(all.map(({ event_id, kind, payload, subject }) => ({ event_id, kind, payload, subject })))
  // The end of the outbox is the second message: a reader that begins there gets neither.
  expect(await outboxEnd(t.db)).toEqual({ newest: all.at(-1)!.cursor, readable: all.at(-1)!.cursor })
  expect(await readEvents(t.db, all.at(-1)!.cursor, 100)).toEqual([])
  // After retention, the cursor between the two is behind it; the cursor after them is not.
  await t.advance(40 * 86_400)
  await prune(t.db, 30)
  await expect(readEvents(t.db, all.at(-2)!.cursor, 100)).rejects.toMatchObject({ code: 'cursor_reset' })
  expect(await readEvents(t.db, all.at(-1)!.cursor, 100)).toEqual([])
})

it('[T2.5] a reader whose pages end inside a row with the leases or starts of a batch gets each event once', async () => {
  const fleet = Array.from({ length: 40 }, (_, at) => `packed-${at}`)
  await t.agents(...fleet)
  const traceparent = '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01'
  await t.kernel.enqueueMany(
    fleet.map((agentId, at) => ({ projectId: project, agentId, ...(at === 20 ? { traceparent } : {}) })),
  )
  const claimant = { workerTarget: target, workerId: 'w', max: 40, resumeLeaseSeconds: 30 }
  expect((await t.kernel.claim(claimant)).turns).toHaveLength(40)
  const all = await readEvents(t.db, start, 1_000)
  for (const status of ['dispatched', 'running']) {
    const agents = all.filter(({ payload }) => payload.status === status).map(({ payload }) => String(payload.agent_id))
    expect(agents.toSorted()).toEqual(fleet.toSorted())
  }
  expect(all).toHaveLength(80)
  expect(all.filter(({ payload }) => payload.traceparent === traceparent)).toHaveLength(2)
  const rows = await t.all(
    `select from state.outbox where (xid, event_id) > (split_part($1, ':', 1)::xid8, split_part($1, ':', 2)::bigint)`,
    start,
  )
  expect(rows.length).toBeLessThan(10)
  for (const page of [1, 7, 16]) {
    const read = []
    for (let cursor = start; ; cursor = read.at(-1)!.cursor) {
      const events = await readEvents(t.db, cursor, page)
      if (events.length === 0) break
      read.push(...events)
    }
    expect(read).toEqual(all)
  }
  const viewed = await t.all<object>(
    `select event_id, kind, payload, subject, agent_turn_id from state.events
      where (xid, event_id) > (split_part($1, ':', 1)::xid8, split_part($1, ':', 2)::bigint) order by xid, event_id`,
    start,
  )
  expect(viewed).toEqual(
    all.map(({ event_id, kind, payload, subject, agent_turn_id }) => ({
      event_id,
      kind,
      payload,
      subject,
      agent_turn_id,
    })),
  )
  expect(await outboxEnd(t.db)).toEqual({ newest: all.at(-1)!.cursor, readable: all.at(-1)!.cursor })
  // Retention removes rows with all their messages.
  await t.advance(40 * 86_400)
  await prune(t.db, 30)
  await expect(readEvents(t.db, all.at(-2)!.cursor, 100)).rejects.toMatchObject({ code: 'cursor_reset' })
  expect(await readEvents(t.db, all.at(-1)!.cursor, 100)).toEqual([])
})

it('a cursor behind retention gets cursor_reset, never a silent gap', async () => {
  for (const name of ['one', 'two', 'three']) await t.db.query(insert(name))
  const [one, two, three] = await readEvents(t.db, start, 10)
  await t.advance(40 * 86_400)
  await t.db.query(insert('four'))
  expect(await prune(t.db, 30)).toBeGreaterThan(0)
  for (const old of [one, two]) {
    await expect(readEvents(t.db, old!.cursor, 10)).rejects.toMatchObject({ code: 'cursor_reset' })
  }
  // The position of the last removed event loses nothing, and the beginning is always allowed.
  expect(names(await readEvents(t.db, three!.cursor, 10))).toEqual(['four'])
  expect(names(await readEvents(t.db, beginning, 10))).toEqual(['four'])
  await expect(readEvents(t.db, 'nonsense', 10)).rejects.toMatchObject({ code: 'invalid_cursor' })
})

it('the horizon age is how long the first unreadable event has waited, also for an ordinary role', async () => {
  const role = `reader_${crypto.randomUUID().replaceAll('-', '')}`
  await late.query(`create role ${role}; grant usage on schema state to ${role};
    grant select on all tables in schema state to ${role}; grant select on all sequences in schema state to ${role};
    set role ${role}`)
  const age = async () => (await late.query<{ age: number }>('select state.horizon_age() as age')).rows[0]!.age
  await t.db.transaction(async (tx) => {
    await tx.query(insert('first'))
    expect(await age()).toBe(0)
    await t.db.query(insert('second'))
    await t.advance(1_000)
    expect(await age()).toBeGreaterThan(999)
  })
  expect(await age()).toBe(0)
  await late.query(`reset role; drop owned by ${role}; drop role ${role}`)
})
