/** The pool against a real server: values, errors by what happens next, and connections that die. */
import { Retryable, Terminal } from '@bellwether/protocol'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openListener } from '../../src/ports/database/connect.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { freshDatabase, type FreshDatabase } from '../support/postgres.js'
import { until } from '../support/until.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase({ poolSize: 4 })
})
afterAll(() => fresh.drop())

const kill = { text: 'select pg_terminate_backend($1)' }
const whoami = { text: 'select pg_backend_pid() as pid' }

describe('values', () => {
  it('gives int8 as a number while it is exact and as text beyond, timestamps as dates, JSON as objects', async () => {
    const rows = await fresh.db.query({
      name: 'values',
      text: `select $1::int8 as small, '9007199254740993'::int8 as large, array[[1, null]]::int8[] as list,
                    '2026-01-02T03:04:05Z'::timestamptz as at, '{"a": [1]}'::jsonb as doc`,
      values: [7],
    })
    const at = new Date('2026-01-02T03:04:05Z')
    expect(rows).toEqual([{ small: 7, large: '9007199254740993', list: [[1, null]], at, doc: { a: [1] } }])
    expect(pg.types.getTypeParser(20)('7')).toBe('7')
  })

  it('leaves the caller’s statement as it was, so that one constant serves many calls', async () => {
    const statement = Object.freeze({ name: 'frozen', text: 'select $1::int as n', values: Object.freeze([3]) })
    const answers = await Promise.all([1, 2, 3].map(() => fresh.db.query(statement)))
    expect(answers).toEqual([[{ n: 3 }], [{ n: 3 }], [{ n: 3 }]])
  })
})

describe('a pooler that keeps no prepared statements', () => {
  const counted = { name: 'counted', text: 'select $1::int as n', values: [1] }

  async function behindPooler() {
    const told: Error[] = []
    const db = await openDatabase({ url: fresh.url, poolSize: 1, onUnprepared: (error) => told.push(error) })
    await db.query(counted)
    // What it looks like from here when the next transaction gets another server connection.
    await db.query({ text: 'deallocate all' })
    return { db, told }
  }

  it('is noticed once, loses no call, and is not asked to prepare again', async () => {
    const { db, told } = await behindPooler()
    expect(await db.query(counted)).toEqual([{ n: 1 }])
    expect(await db.query({ ...counted, name: 'another' })).toEqual([{ n: 1 }])
    expect(await db.query({ text: `select name from pg_prepared_statements where name <> ''` })).toEqual([])
    expect(told).toHaveLength(1)
    await db.close()
  })

  it('costs a transaction one more attempt', async () => {
    const { db } = await behindPooler()
    const twice = () => db.transaction(async (tx) => [await tx.query(counted), await tx.query(counted)])
    await expect(twice()).rejects.toMatchObject({ name: 'Retryable', code: 'unprepared' })
    expect(await twice()).toEqual([[{ n: 1 }], [{ n: 1 }]])
    await db.close()
  })
})

describe('errors', () => {
  it('calls a statement that takes too long a timeout', async () => {
    const db = await openDatabase({ url: fresh.url, statementTimeoutMs: 50 })
    const slow = db.query({ text: 'select pg_sleep(10)' })
    await expect(slow).rejects.toMatchObject({ name: 'Retryable', code: 'database_timeout' })
    await db.close()
  })

  it('calls a serialization failure a conflict', async () => {
    const fail = { text: `do $$ begin raise exception 'again' using errcode = '40001'; end $$` }
    await expect(fresh.db.query(fail)).rejects.toMatchObject({ name: 'Retryable', code: 'database_conflict' })
  })

  it('calls a prepared statement whose table changed a conflict, and the repetition works', async () => {
    const db = await openDatabase({ url: fresh.url, poolSize: 1 })
    const read = { name: 'read changed', text: 'select * from changed' }
    await db.query({ text: 'create table changed (a int)' })
    await db.query(read)
    await db.query({ text: 'alter table changed add column b int' })
    await expect(db.query(read)).rejects.toMatchObject({ code: 'database_conflict' })
    expect(await db.query(read)).toEqual([])
    await db.close()
  })

  it('passes a constraint violation on as the driver gave it', async () => {
    await fresh.db.query({ text: 'create table once (id int primary key)' })
    await fresh.db.query({ text: 'insert into once values (1)' })
    const again = fresh.db.query({ text: 'insert into once values (1)' })
    await expect(again).rejects.toBeInstanceOf(pg.DatabaseError)
    await expect(again).rejects.toMatchObject({ code: '23505' })
  })
})

describe('opening', () => {
  const wrong = (change: (url: URL) => void) => {
    const url = new URL(fresh.url)
    change(url)
    return openDatabase({ url: url.href, connectTimeoutMs: 2_000 })
  }

  it('names what is wrong with a URL, and never repeats the password in it', async () => {
    const opening = openDatabase({ url: 'postgresql://u:s3cret@host:port/name' })
    await expect(opening).rejects.toMatchObject({ name: 'InvalidInput', code: 'database_url' })
    await expect(opening).rejects.not.toThrow(/s3cret/)
    await expect(openDatabase({ url: 'mysql://host/name' })).rejects.toMatchObject({ code: 'database_url' })
  })

  it('tells a wrong password, a missing database and an absent server apart', async () => {
    await expect(wrong((url) => (url.password = 'no'))).rejects.toMatchObject({
      name: 'InvalidInput',
      code: 'database_login',
    })
    await expect(wrong((url) => (url.pathname = '/nowhere'))).rejects.toMatchObject({
      name: 'InvalidInput',
      code: 'database_missing',
    })
    await expect(wrong((url) => (url.port = '1'))).rejects.toMatchObject({
      name: 'Retryable',
      code: 'database_unavailable',
    })
  })
})

describe('a pool that is fully lent', () => {
  it('fails as retryable after the connect timeout, instead of waiting for ever', async () => {
    const db = await openDatabase({ url: fresh.url, poolSize: 1, connectTimeoutMs: 200 })
    await db.transaction(async () => {
      await expect(db.query(whoami)).rejects.toMatchObject({ name: 'Retryable', code: 'database_unavailable' })
    })
    expect(await db.query({ text: 'select 1 as one' })).toEqual([{ one: 1 }])
    await db.close()
  })
})

describe('connections that die', () => {
  it('survives the loss of idle connections, and the next query has a new one', async () => {
    const lost: Error[] = []
    const db = await openDatabase({ url: fresh.url, poolSize: 1, onLost: (error) => lost.push(error) })
    const [before] = await db.query<{ pid: number }>(whoami)
    await fresh.db.query({ ...kill, values: [before?.pid] })
    await until('the pool hears of it', async () => lost.length > 0 || undefined)
    const [after] = await db.query<{ pid: number }>(whoami)
    expect(after?.pid).not.toBe(before?.pid)
    await db.close()
  })

  it('fails a transaction as retryable when its connection is killed between two statements', async () => {
    const lost: Error[] = []
    const db = await openDatabase({ url: fresh.url, poolSize: 1, onLost: (error) => lost.push(error) })
    const broken = db.transaction(async (tx) => {
      const [me] = await tx.query<{ pid: number }>(whoami)
      await fresh.db.query({ ...kill, values: [me?.pid] })
      await until('the lent connection hears of it', async () => lost.length > 0 || undefined)
      return tx.query(whoami)
    })
    await expect(broken).rejects.toMatchObject({ name: 'Retryable', code: 'database_unavailable' })
    expect(await db.query({ text: 'select 1 as one' })).toEqual([{ one: 1 }])
    await db.close()
  })

  it('tells a listener’s owner once that the connection is gone', async () => {
    const lost: Error[] = []
    const listener = await openListener({
      url: fresh.url,
      applicationName: 'ear',
      onLost: (error) => lost.push(error),
    })
    await listener.query('listen bell')
    await fresh.db.query({
      text: `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ear'`,
    })
    await until('the owner hears of it', async () => lost.length > 0 || undefined)
    expect(lost).toHaveLength(1)
  })
})

describe('transactions', () => {
  it('commits what returns and rolls back what throws, on the same clean connection', async () => {
    const db = await openDatabase({ url: fresh.url, poolSize: 1 })
    await db.query({ text: 'create table kept (id int)' })
    const [before] = await db.query<{ pid: number }>(whoami)
    await db.transaction((tx) => tx.query({ text: 'insert into kept values (1)' }))
    const refused = db.transaction(async (tx) => {
      await tx.query({ text: 'insert into kept values (2)' })
      throw new Terminal('no', { code: 'no' })
    })
    await expect(refused).rejects.toMatchObject({ code: 'no' })
    expect(await db.query({ text: 'select id from kept' })).toEqual([{ id: 1 }])
    expect((await db.query<{ pid: number }>(whoami))[0]?.pid).toBe(before?.pid)
    await db.close()
  })

  it('drops a connection whose transaction broke it, instead of lending it again', async () => {
    const db = await openDatabase({ url: fresh.url, poolSize: 1 })
    const [before] = await db.query<{ pid: number }>(whoami)
    const suicide = db.transaction((tx) => tx.query({ text: 'select pg_terminate_backend(pg_backend_pid())' }))
    await expect(suicide).rejects.toBeInstanceOf(Retryable)
    expect((await db.query<{ pid: number }>(whoami))[0]?.pid).not.toBe(before?.pid)
    await db.close()
  })

  it('does not report a commit when a failed statement was caught inside', async () => {
    const swallowed = fresh.db.transaction(async (tx) => {
      await tx.query({ text: 'select 1 / 0' }).catch(() => undefined)
    })
    await expect(swallowed).rejects.toMatchObject({ name: 'Terminal', code: 'transaction_aborted' })
  })

  it('refuses a statement after the end, so that it cannot land in somebody else’s transaction', async () => {
    const kept = await fresh.db.transaction(async (tx) => tx)
    await expect(kept.query({ text: 'select 1' })).rejects.toMatchObject({ code: 'transaction_over' })
  })
})
