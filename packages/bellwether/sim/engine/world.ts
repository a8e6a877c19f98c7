/**
 * A migrated database made ready for simulation, once, and emptied before each run. Tables that held rows when the world
 * was opened (what migrations seeded) get those rows back. Connections live as long as the world; one world runs one
 * simulation at a time. The runs themselves are run.ts's.
 */
import type { Queryable } from '../../src/ports/database/database.js'
import { types } from '../../src/ports/database/pg-types.js'
import { Control } from './control.js'
import { installGates, instrumentSchema, replaceClock } from './install.js'

export interface WorldOptions {
  /** A database of its own, already migrated; the role must be a superuser. */
  readonly url: string
  /** Their functions get gates, their tables are emptied. */
  readonly schemas: readonly string[]
  /** The function that tells the time in SQL; it will tell the world's. `state.now` for the kernel. */
  readonly now?: string
}

export interface World {
  /** The scheduler's own session: for set-up and for looking, never stopped by a gate. */
  readonly db: Queryable
  readonly control: Control
  /** The functions that got gates. */
  readonly instrumented: readonly string[]
  reset(clockUs: number): Promise<void>
  close(): Promise<void>
}

export async function openWorld(options: WorldOptions): Promise<World> {
  const control = await Control.open({ connectionString: options.url, types })
  await installGates(control)
  if (options.now !== undefined) await replaceClock(control, options.now)
  const instrumented: string[] = []
  for (const schema of options.schemas) instrumented.push(...(await instrumentSchema(control, schema)))
  await installReset(control, options.schemas)
  return {
    db: control,
    control,
    instrumented,
    reset: async (clockUs) => {
      await control.query({ text: `select sim.reset(), setval('sim.clock', $1)`, values: [clockUs] })
    },
    close: () => control.close(),
  }
}

interface TableRow {
  readonly name: string
  readonly columns: string
  readonly seeded: boolean
}

/**
 * Truncates what was written (pages, or other rows than the seeded ones), which also puts rows back in the same physical
 * order every time; gives sequences their first value; and keeps autovacuum away, whose statistics would change plans
 * between runs. Foreign keys may carry a truncation further: a seeded table found empty is filled again.
 */
async function installReset(db: Queryable, schemas: readonly string[]): Promise<void> {
  const tables = await db.query<TableRow>({ text: tablesQuery, values: [schemas] })
  const touched: string[] = []
  const refill: string[] = []
  for (const [index, { name, columns, seeded }] of tables.entries()) {
    await db.query({ text: `alter table ${name} set (autovacuum_enabled = false)` })
    if (!seeded) {
      touched.push(`pg_relation_size('${name}') > 0`)
      continue
    }
    const copy = `sim.seed_${index}`
    await db.query({ text: `drop table if exists ${copy}; create table ${copy} as select ${columns} from ${name}` })
    const rows = (table: string): string =>
      `(select md5(string_agg(r::text, '|' order by r.ctid)) from (select ctid, ${columns} from ${table}) r)`
    touched.push(`${rows(name)} is distinct from ${rows(copy)}`)
    refill.push(`if not exists (select 1 from ${name}) then
      insert into ${name} (${columns}) overriding system value select ${columns} from ${copy} order by ctid; end if;`)
  }
  const collect = tables.map(
    ({ name }, index) => `if ${touched[index]!} then names := names || '${name}'::text; end if;`,
  )
  const spaces = schemas.map((schema) => `'${schema}'::regnamespace`).join(', ')
  const text = `
    create or replace function sim.reset() returns void language plpgsql set session_replication_role = replica as $sim$
    declare names text[] := '{}';
    begin
      ${collect.join('\n')}
      if names <> '{}' then
        execute 'truncate ' || array_to_string(names, ', ') || ' restart identity cascade';
        ${refill.join('\n')}
      end if;
      perform setval(s.seqrelid::regclass, s.seqstart, false) from pg_sequence s join pg_class c on c.oid = s.seqrelid
      where c.relnamespace in (${spaces});
    end $sim$`
  await db.query({ text })
}

const tablesQuery = `
  select c.oid::regclass::text as name, a.columns,
    query_to_xml('select 1 from ' || c.oid::regclass || ' limit 1', false, true, '')::text <> '' as seeded
  from pg_class c, lateral (
    select coalesce(string_agg(quote_ident(attname), ', ' order by attnum), '') as columns from pg_attribute
    where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '') a
  where c.relnamespace = any($1::text[]::regnamespace[]) and c.relkind = 'r' order by 1`
