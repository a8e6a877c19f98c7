/**
 * Empties the schemas under test between runs: `select sim.reset()`, one round trip. Rows that were in a table when the world was opened (seeded
 * by migrations) are restored, and sequences restart. Autovacuum is off, because its statistics would change plans between runs. No
 * transaction may use the tables during a reset; run.ts ensures that.
 */
import type { Queryable } from '../../src/ports/database/database.js'

/**
 * 'truncate' is exact: rows have the same physical order in every run, so that even a query without ORDER BY returns the same. 'delete' is
 * about ten times faster and keeps cached plans: for runs of many seeds.
 */
export type Emptying = 'truncate' | 'delete'

interface TableRow {
  readonly name: string
  /** All columns except generated ones, which cannot be inserted. */
  readonly columns: string
  readonly seeded: boolean
}

const tablesQuery = `
  select c.oid::regclass::text as name, a.columns,
    query_to_xml('select 1 from ' || c.oid::regclass || ' limit 1', false, true, '')::text <> '' as seeded
  from pg_class c, lateral (
    select coalesce(string_agg(quote_ident(attname), ', ' order by attnum), '') as columns from pg_attribute
    where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '') a
  where c.relnamespace = any($1::text[]::regnamespace[]) and c.relkind = 'r' order by 1`

// More dead rows than this cost more than a truncation.
const deleteMaxBytes = 1_000_000

export async function installReset(db: Queryable, schemas: readonly string[], emptying: Emptying): Promise<void> {
  // An earlier world used this database: rows that its last run left are not seeds.
  const [earlier] = await db.query<{ there: boolean }>({ text: `select to_regproc('sim.reset') is not null as there` })
  if (earlier?.there) await db.query({ text: 'select sim.reset()' })
  const tables = await db.query<TableRow>({ text: tablesQuery, values: [schemas] })
  const empty: string[] = []
  const refill: string[] = []
  for (const [index, table] of tables.entries()) {
    const { name, columns, seeded } = table
    await db.query({ text: `alter table ${name} set (autovacuum_enabled = false)` })
    const copy = `sim.seed_${index}`
    if (seeded) {
      await db.query({ text: `drop table if exists ${copy}; create table ${copy} as select ${columns} from ${name}` })
      // Also if a foreign key cascaded the truncation of another table.
      refill.push(`if not exists (select 1 from ${name}) then
        insert into ${name} (${columns}) overriding system value select ${columns} from ${copy} order by ctid; end if;`)
    }
    const written = seeded ? differs(table, copy, emptying) : `pg_relation_size('${name}') > 0`
    const byDelete = emptying === 'delete' ? `pg_relation_size('${name}') < ${deleteMaxBytes}` : 'false'
    empty.push(`if ${written} then
      if ${byDelete} then delete from ${name}; else names := names || '${name}'::text; end if; end if;`)
  }
  const spaces = schemas.map((schema) => `'${schema}'::regnamespace`).join(', ')
  const text = `
    create or replace function sim.reset() returns void language plpgsql set session_replication_role = replica as $sim$
    declare names text[] := '{}';
    begin
      ${empty.join('\n')}
      if names <> '{}' then
        execute 'truncate ' || array_to_string(names, ', ') || ' restart identity cascade';
      end if;
      ${refill.join('\n')}
      perform setval(s.seqrelid::regclass, s.seqstart, false) from pg_sequence s join pg_class c on c.oid = s.seqrelid
      where c.relnamespace in (${spaces});
    end $sim$`
  await db.query({ text })
}

/** Whether a seeded table has changed; for 'truncate' the positions of its rows count too. */
function differs({ name, columns }: TableRow, copy: string, emptying: Emptying): string {
  const row = emptying === 'truncate' ? 'r' : `row(${columns})`
  const print = (table: string): string =>
    `(select md5(string_agg(${row}::text, '|' order by ${row}::text)) from (select ctid, ${columns} from ${table}) r)`
  return `${print(name)} is distinct from ${print(copy)}`
}
