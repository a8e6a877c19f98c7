/** The database of a test kernel that an earlier test has used. */
import { expect, it } from 'vitest'
import { testKernel, type TestKernel } from '../support/kernel.js'

/** Rows of every table and position of every sequence, without the clock. */
async function contentOf(t: TestKernel): Promise<object> {
  const relations = await t.all<{ name: string; kind: string }>(`
    select format('%I.%I', nspname, relname) as name, relkind as kind from pg_class c join pg_namespace n on n.oid = relnamespace
      where relkind in ('r', 'S') and c.oid >= 16384 and relname <> 'test_clock' order by 1`)
  const rows = relations.map(async ({ name, kind }) => {
    const columns = kind === 'S' ? 'last_value, is_called' : '*'
    return [name, await t.all(`select ${columns} from ${name} order by 1`)] as const
  })
  return Object.fromEntries(await Promise.all(rows))
}

it('a kernel whose database was used before has no rows of that use, and the same sequences as a new one', async () => {
  const first = await testKernel({ isReused: true })
  await first.agents('ann')
  await first.running('ann')
  await first.db.query({ text: 'delete from state.trend_progress' })
  await first.drop()
  const [reused, fresh] = [await testKernel({ isReused: true }), await testKernel()]
  expect(await contentOf(reused)).toEqual(await contentOf(fresh))
  await Promise.all([reused.drop(), fresh.drop()])
})

it.each([
  ['a table was made', 'create table left_over ()'],
  [
    'a function was replaced',
    "create or replace function state.now() returns timestamptz language sql as 'select now()'",
  ],
])('a database is dropped if %s in it', async (_, text) => {
  const [t, other] = [await testKernel({ isReused: true }), await testKernel({ isReused: true })]
  await t.db.query({ text })
  const name = new URL(t.url).pathname.slice(1)
  await t.drop()
  expect(await other.all('select from pg_database where datname = $1', name)).toEqual([])
  await other.drop()
})
