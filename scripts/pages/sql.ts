/**
 * docs/reference/sql.md: describes the schema of a migrated database (tables, types, views, triggers and function signatures), read from
 * the catalogs in a stable order. The result is documentation, not a script. Writing it is left to docs.ts.
 */
import { groupBy } from '../../packages/base/src/group.js'
import type { Queryable } from '../../packages/bellwether/src/ports/database/database.js'
import { generated, page } from './pages.js'

const schemas = ['resource', 'cards', 'state']

interface Entry {
  readonly name: string
  readonly line: string
}

const columns = `
  select n.nspname || '.' || c.relname as name,
    a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
      || case when a.attnotnull then ' not null' else '' end
      || case when a.attidentity = 'a' then ' generated always as identity' else '' end
      || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') as line
  from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where n.nspname = any ($1) and c.relkind = $2::"char" and a.attnum > 0 and not a.attisdropped
  order by array_position($1::text[], n.nspname::text), c.oid, a.attnum`

// Without not-null, which is shown with its column; since PostgreSQL 18 it is also a constraint.
const constraints = `
  select n.nspname || '.' || c.relname as name, 'constraint ' || o.conname || ' ' || pg_get_constraintdef(o.oid) as line
  from pg_constraint o join pg_class c on c.oid = o.conrelid join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1) and o.contype in ('p', 'u', 'f', 'c')
  order by array_position('{p,u,f,c}'::text[], o.contype::text), o.conname`

const tableOptions = `
  select n.nspname || '.' || c.relname as name, array_to_string(c.reloptions, ', ') as line
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1) and c.relkind = 'r' and c.reloptions is not null`

// Without the indexes of constraints, which are shown there.
const indexes = `
  select n.nspname || '.' || t.relname as name, pg_get_indexdef(x.indexrelid) as line
  from pg_index x join pg_class t on t.oid = x.indrelid join pg_class c on c.oid = x.indexrelid
  join pg_namespace n on n.oid = t.relnamespace
  where n.nspname = any ($1) and not exists (select from pg_constraint o
    where o.conindid = x.indexrelid and o.contype in ('p', 'u'))
  order by c.relname`

const triggers = `
  select n.nspname || '.' || c.relname as name, pg_get_triggerdef(g.oid) as line
  from pg_trigger g join pg_class c on c.oid = g.tgrelid join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1) and not g.tgisinternal order by g.tgname`

const sequences = `
  select n.nspname || '.' || c.relname as name, 'create sequence ' || n.nspname || '.' || c.relname as line
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1) and c.relkind = 'S' and not exists (select from pg_depend d
    where d.objid = c.oid and d.deptype = 'i')
  order by array_position($1::text[], n.nspname::text), c.relname`

const domains = `
  select n.nspname || '.' || t.typname as name,
    'create domain ' || n.nspname || '.' || t.typname || ' as ' || format_type(t.typbasetype, t.typtypmod)
      || ' constraint ' || o.conname || ' ' || pg_get_constraintdef(o.oid) as line
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
  join pg_constraint o on o.contypid = t.oid and o.contype = 'c'
  where n.nspname = any ($1) order by array_position($1::text[], n.nspname::text), t.typname`

const views = `
  select n.nspname || '.' || c.relname as name, pg_get_viewdef(c.oid, true) as line
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1) and c.relkind = 'v' order by c.relname`

const functions = `
  select n.nspname || '.' || p.proname as name,
    'create function ' || n.nspname || '.' || p.proname || '(' || pg_get_function_arguments(p.oid) || ') returns '
      || pg_get_function_result(p.oid) as line
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = any ($1) order by n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)`

export async function sqlPage(db: Queryable): Promise<string> {
  const ask = (text: string, ...more: unknown[]) => db.query<Entry>({ text, values: [schemas, ...more] })
  const grouped = async (text: string, ...more: unknown[]) => groupBy(await ask(text, ...more), ({ name }) => name)
  const tables = await grouped(columns, 'r')
  const types = await grouped(columns, 'c')
  const [rules, options, keys, guards] = [
    await grouped(constraints),
    await grouped(tableOptions),
    await grouped(indexes),
    await grouped(triggers),
  ]
  const parts = [
    section(
      'sequences',
      (await ask(sequences)).map((entry) => `${entry.line};`),
    ),
    section(
      'domains',
      (await ask(domains)).map((entry) => `${entry.line};`),
    ),
    section(
      'tables',
      [...tables].map(([name, own]) =>
        [
          `create table ${name} (`,
          [...own, ...(rules.get(name) ?? [])].map((entry) => `  ${entry.line}`).join(',\n'),
          options.has(name) ? `) with (${options.get(name)![0]!.line});` : ');',
          ...[...(keys.get(name) ?? []), ...(guards.get(name) ?? [])].map((entry) => `${entry.line};`),
          '',
        ].join('\n'),
      ),
    ),
    section(
      'types',
      [...types].map(([name, own]) => `create type ${name} as (${own.map((entry) => entry.line).join(', ')});`),
    ),
    section(
      'views',
      (await ask(views)).map((entry) => `create view ${entry.name} as\n${entry.line}`),
    ),
    section(
      'functions',
      (await ask(functions)).map((entry) => `${entry.line};`),
    ),
  ]
  const schema = parts
    .join('\n\n')
    .replaceAll(/[ \t]+$/gm, '')
    .replaceAll(/\n{3,}/g, '\n\n')
  return page(
    '# SQL reference',
    '',
    generated,
    '',
    'The schema of a migrated database. Read it with any SQL client; change it only through the product. The verbs are functions in schema',
    '`state`; their sources with comments are in `packages/bellwether/src/kernel/verbs`.',
    '',
    '```sql',
    schema.trimEnd(),
    '```',
  )
}

function section(title: string, lines: readonly string[]): string {
  return [`-- ${title}`, ...lines].join('\n')
}
