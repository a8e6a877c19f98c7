/** Attacks the database with the role of a worker. */
import { systemRandom } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { closedToWorkers, putWorkerRole, workerGrants } from '../../src/kernel/access/worker-role.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { freshDatabase } from '../support/postgres.js'

async function asWorker() {
  const { db, url, drop } = await freshDatabase()
  onTestFinished(() => drop())
  const name = `worker_${process.pid}_${Buffer.from(systemRandom.bytes(4)).toString('hex')}`
  await putWorkerRole(db, { name, password: 'a'.repeat(32) })
  await putWorkerRole(db, { name, password: 'b'.repeat(32) })
  const own = Object.assign(new URL(url), { username: name, password: 'b'.repeat(32) })
  const worker = await openDatabase({ url: own.href })
  onTestFinished(async () => {
    await worker.close()
    await db.query({ text: `drop owned by ${name}` })
    await db.query({ text: `drop role ${name}` })
  })
  return { db, url: own.href, worker, name }
}

it('the role of a worker reaches no keys and changes no roster, schema, role or file', async () => {
  const { worker, name } = await asWorker()
  const attacks = [
    'select * from resource.api_keys',
    "insert into resource.api_keys (key_id) values ('x')",
    'select * from resource.audit_log',
    'delete from resource.audit_log',
    'select * from resource.http_responses',
    "update resource.project_agents set worker_target = 'mine'",
    'delete from resource.profiles',
    "update resource.tools set description = 'mine'",
    'create table state.mine (a int)',
    'create schema mine',
    'drop function state.now()',
    'alter table state.agent_inbox add column mine int',
    `alter role ${name} superuser`,
    'create role mine superuser',
    "copy (select 1) to program 'id'",
    "select pg_read_file('/etc/passwd')",
    'delete from state.moves',
    'create temporary table mine (a int)',
    'create temporary view mine as select 1',
    'select lo_create(0)',
    'select lo_creat(-1)',
    "select lo_from_bytea(0, 'mine')",
    "set temp_file_limit = '-1'",
    'update state.approvals set status = $$allowed$$',
    'select * from state.lease_tokens',
  ]
  const answers: string[] = []
  for (const text of attacks)
    answers.push(
      await worker.query({ text }).then(
        () => `allowed: ${text}`,
        (error: unknown) => String(error),
      ),
    )
  expect(
    answers.filter((one) => !/permission denied|must be owner|must be superuser|only roles|Only roles/.test(one)),
  ).toEqual([])
  expect(await worker.query({ text: 'select count(*) from state.agent_inbox' })).toHaveLength(1)
})

it('the role of a worker cannot connect to the other databases of the cluster, where these limits do not hold', async () => {
  const { url } = await asWorker()
  for (const database of ['postgres', 'template1']) {
    const other = Object.assign(new URL(url), { pathname: `/${database}` })
    const opened = openDatabase({ url: other.href })
    await expect(opened.then((db) => db.query({ text: 'select 1' }))).rejects.toThrow(/permission denied for database/)
  }
})

it('the role of a worker leaves connections and disk space to the others', async () => {
  const { db, worker, name } = await asWorker()
  const [role] = await db.query<{ connections: number; all: number }>({
    text: `select rolconnlimit as connections, current_setting('max_connections')::int as all from pg_roles where rolname = $1`,
    values: [name],
  })
  expect(role!.connections).toBe(Math.floor((role!.all * 3) / 4))
  expect(await worker.query({ text: 'show temp_file_limit' })).toEqual([{ temp_file_limit: '256MB' }])
})

it('the role of a worker gets its own password and settings back at the next start, whatever a worker made of them', async () => {
  const { db, url, worker, name } = await asWorker()
  const changes = [
    `alter role ${name} set default_transaction_read_only = on`,
    `alter role ${name} set work_mem = '2GB'`,
    `do $$ begin execute format('alter role ${name} in database %I set search_path = nowhere', current_database()); end $$`,
    `alter role ${name} password 'mine'`,
  ]
  for (const text of changes) await worker.query({ text })
  await putWorkerRole(db, { name, password: 'c'.repeat(32) })
  const next = await openDatabase({ url: Object.assign(new URL(url), { password: 'c'.repeat(32) }).href })
  onTestFinished(() => next.close())
  const settings = await db.query<{ settings: string[] }>({
    text: `select setconfig as settings from pg_db_role_setting where setrole = '${name}'::regrole`,
  })
  expect(settings).toEqual([{ settings: ['temp_file_limit=256MB'] }])
  expect(await next.query({ text: 'show transaction_read_only' })).toEqual([{ transaction_read_only: 'off' }])
})

it('every table is either open to workers or closed on purpose', async () => {
  const { db } = await asWorker()
  const rows = await db.query<{ name: string }>({
    text: `select table_schema || '.' || table_name as name from information_schema.tables
      where table_schema in ('bellwether', 'state', 'cards', 'resource') order by 1`,
  })
  const open = Object.entries(workerGrants).flatMap(([schema, tables]) =>
    Object.keys(tables).map((table) => `${schema}.${table}`),
  )
  expect(rows.map(({ name }) => name).sort()).toEqual([...open, ...closedToWorkers].sort())
})
