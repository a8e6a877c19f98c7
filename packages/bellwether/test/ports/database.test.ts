/** The pool against a real server: values, errors by what happens next, and connections that die. */
import { Retryable, Terminal } from '@bellwether/protocol'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/ports/database/pool.js'
import { freshDatabase, type FreshDatabase } from '../support/postgres.js'
import { until } from '../support/until.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase({ empty: true, poolSize: 4 })
})
afterAll(() => fresh.drop())

const kill = { text: 'select pg_terminate_backend($1)' }
const whoami = { text: 'select pg_backend_pid() as pid' }

describe('values', () => {
  it('returns int8 as a number if exact and else as text, timestamps as dates, JSON as objects', async () => {
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

  it('does not change the caller’s statement', async () => {
    const statement = Object.freeze({ name: 'frozen', text: 'select $1::int as n', values: Object.freeze([3]) })
    const answers = await Promise.all([1, 2, 3].map(() => fresh.db.query(statement)))
    expect(answers).toEqual([[{ n: 3 }], [{ n: 3 }], [{ n: 3 }]])
  })
})

describe('a pooler that drops prepared statements', () => {
  const counted = { name: 'counted', text: 'select $1::int as n', values: [1] }

  async function behindPooler() {
    const reported: Error[] = []
    const db = await openDatabase({ url: fresh.url, poolSize: 1, onUnprepared: (error) => reported.push(error) })
    await db.query(counted)
    // What it looks like from here when the next transaction gets another server connection.
    await db.query({ text: 'deallocate all' })
    return { db, reported }
  }

  it('a pooler that drops prepared statements is reported once, loses no call, and gets unprepared statements from then on', async () => {
    const { db, reported } = await behindPooler()
    expect(await db.query(counted)).toEqual([{ n: 1 }])
    expect(await db.query({ ...counted, name: 'another' })).toEqual([{ n: 1 }])
    expect(await db.query({ text: `select name from pg_prepared_statements where name <> ''` })).toEqual([])
    expect(reported).toHaveLength(1)
    await db.close()
  })

  it('makes a transaction fail once as retryable', async () => {
    const { db } = await behindPooler()
    const twice = () => db.transaction(async (tx) => [await tx.query(counted), await tx.query(counted)])
    await expect(twice()).rejects.toMatchObject({ name: 'Retryable', code: 'unprepared' })
    expect(await twice()).toEqual([[{ n: 1 }], [{ n: 1 }]])
    await db.close()
  })
})

describe('errors', () => {
  it('reports a statement that takes too long as a timeout', async () => {
    const db = await openDatabase({ url: fresh.url, statementTimeoutMs: 50 })
    const slow = db.query({ text: 'select pg_sleep(10)' })
    await expect(slow).rejects.toMatchObject({ name: 'Retryable', code: 'database_timeout' })
    await db.close()
  })

  it('reports a serialization failure as a conflict', async () => {
    const fail = { text: `do $$ begin raise exception 'again' using errcode = '40001'; end $$` }
    await expect(fresh.db.query(fail)).rejects.toMatchObject({ name: 'Retryable', code: 'database_conflict' })
  })

  it('reports a prepared statement whose table changed as a conflict, and a retry works', async () => {
    const db = await openDatabase({ url: fresh.url, poolSize: 1 })
    const read = { name: 'read changed', text: 'select * from changed' }
    await db.query({ text: 'create table changed (a int)' })
    await db.query(read)
    await db.query({ text: 'alter table changed add column b int' })
    await expect(db.query(read)).rejects.toMatchObject({ code: 'database_conflict' })
    expect(await db.query(read)).toEqual([])
    await db.close()
  })

  it('passes a constraint violation unchanged', async () => {
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
    return openDatabase({ url: url.href, connectTimeoutMs: 60_000 })
  }

  it('explains an invalid URL without repeating its password', async () => {
    const opening = openDatabase({ url: 'postgresql://u:s3cret@host:port/name' })
    await expect(opening).rejects.toMatchObject({ name: 'InvalidInput', code: 'database_url' })
    await expect(opening).rejects.not.toThrow(/s3cret/)
    await expect(openDatabase({ url: 'mysql://host/name' })).rejects.toMatchObject({ code: 'database_url' })
  })

  it('distinguishes a wrong password, a missing database and a missing server', async () => {
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

describe('a pool without free connections', () => {
  it('fails as retryable after the connect timeout', async () => {
    const db = await openDatabase({ url: fresh.url, poolSize: 1, connectTimeoutMs: 200 })
    await db.transaction(async () => {
      await expect(db.query(whoami)).rejects.toMatchObject({ name: 'Retryable', code: 'database_unavailable' })
    })
    expect(await db.query({ text: 'select 1 as one' })).toEqual([{ one: 1 }])
    await db.close()
  })
})

describe('lost connections', () => {
  it('lost connections are replaced at the next query if they were idle', async () => {
    const lost: Error[] = []
    const db = await openDatabase({ url: fresh.url, poolSize: 1, onLost: (error) => lost.push(error) })
    const [before] = await db.query<{ pid: number }>(whoami)
    await fresh.db.query({ ...kill, values: [before?.pid] })
    await until('the pool hears of it', async () => lost.length > 0 || undefined)
    const [after] = await db.query<{ pid: number }>(whoami)
    expect(after?.pid).not.toBe(before?.pid)
    await db.close()
  })

  it('fail a transaction as retryable between two statements', async () => {
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

  it('lost connections are not reported after the owner has closed the pool', async () => {
    const lost: Error[] = []
    const db = await openDatabase({ url: fresh.url, poolSize: 1, onLost: (error) => lost.push(error) })
    let closed: Promise<void> | undefined
    const broken = db.transaction(async (tx) => {
      const [me] = await tx.query<{ pid: number }>(whoami)
      closed = db.close()
      await fresh.db.query({ ...kill, values: [me?.pid] })
      const isGone = {
        text: 'select 1 where not exists (select from pg_stat_activity where pid = $1)',
        values: [me?.pid],
      }
      await until('its backend has ended', async () => (await fresh.db.query(isGone))[0])
      return tx.query(whoami)
    })
    await expect(broken).rejects.toMatchObject({ name: 'Retryable', code: 'database_unavailable' })
    await closed
    expect(lost).toEqual([])
  })
})

describe('transactions', () => {
  it('commit if the function returns and roll back if it throws, on the same clean connection', async () => {
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

  it('drop a broken connection instead of reusing it', async () => {
    const db = await openDatabase({ url: fresh.url, poolSize: 1 })
    const [before] = await db.query<{ pid: number }>(whoami)
    const suicide = db.transaction((tx) => tx.query({ text: 'select pg_terminate_backend(pg_backend_pid())' }))
    await expect(suicide).rejects.toBeInstanceOf(Retryable)
    expect((await db.query<{ pid: number }>(whoami))[0]?.pid).not.toBe(before?.pid)
    await db.close()
  })

  it('do not report a commit if a failed statement was caught inside', async () => {
    const swallowed = fresh.db.transaction(async (tx) => {
      await tx.query({ text: 'select 1 / 0' }).catch(() => undefined)
    })
    await expect(swallowed).rejects.toMatchObject({ name: 'Terminal', code: 'transaction_aborted' })
  })

  it('reject a statement after their end, so that it cannot run in another transaction', async () => {
    const kept = await fresh.db.transaction(async (tx) => tx)
    await expect(kept.query({ text: 'select 1' })).rejects.toMatchObject({ code: 'transaction_over' })
  })
})
