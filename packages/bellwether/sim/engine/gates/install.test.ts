import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freshDatabase, type FreshDatabase } from '../../../test/support/postgres.js'
import { installGates, instrumentSchema, replaceClock } from './install.js'

let fresh: FreshDatabase

beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

/** Uses FOUND, ROW_COUNT, exceptions, loops, CASE and RETURN QUERY, which a wrong gate would change. */
const tricky = `
create schema toy;
create table toy.t (id int primary key, n int not null check (n < 100));
create function toy.tricky(p_id int) returns table (what text, value int) language plpgsql
set enable_seqscan = off as $f$
#variable_conflict use_column
declare
  v_rows int;
  v_id int := (select max(id) from toy.t);
  r record;
begin
  update toy.t set n = n + 1 where id = p_id;
  if found then return query select 'found', n from toy.t where id = p_id;
  else return query select 'missing', -1; end if;
  update toy.t set n = n where id <= v_id;
  get diagnostics v_rows = row_count;
  return query select 'rows', v_rows;
  begin
    insert into toy.t values (p_id + 1000, 100);
  exception when check_violation then
    return query select case when p_id > 1 then 'refused; end' else 'refused' end, p_id;
  end;
  <<each>>
  for r in select id from toy.t order by id loop
    continue each when r.id = 2;
    case r.id % 2 when 0 then return query select 'even', r.id; else return query select 'odd', r.id; end case;
  end loop;
  perform 1 from toy.t where id = -1;
  return query select 'perform found', found::int;
end $f$;
create function toy.touch() returns trigger language plpgsql as $f$ begin perform 1; return new; end $f$;
create function toy.fixed() returns int language plpgsql immutable as $f$ begin return abs(-1); end $f$;
create function toy.now() returns timestamptz language sql volatile as $f$ select clock_timestamp() $f$;
create table toy.stamped (at timestamptz default toy.now());
`

describe('an instrumented schema', () => {
  it('behaves like the plain one for sessions that are not fibres', async () => {
    const { db } = fresh
    await db.query({ text: tricky })
    const call = async (): Promise<unknown[]> => {
      await db.query({ text: `truncate toy.t; insert into toy.t select i, i from generate_series(1, 5) i` })
      const answers: unknown[] = []
      for (const id of [1, 2, 9]) answers.push(await db.query({ text: 'select * from toy.tricky($1)', values: [id] }))
      return answers
    }
    const before = await call()
    await installGates(db)
    expect(await instrumentSchema(db, 'toy')).toEqual(['tricky'])
    expect(await call()).toEqual(before)
    expect(await instrumentSchema(db, 'toy')).toEqual([])
    const [kept] = await db.query<{ settings: string[] }>({
      text: `select proconfig as settings from pg_proc where oid = 'toy.tricky'::regproc`,
    })
    expect(kept?.settings).toEqual(['enable_seqscan=off'])
  })

  it('uses the virtual clock, also in column defaults', async () => {
    const { db } = fresh
    await replaceClock(db, 'toy.now')
    await db.query({ text: `select setval('sim.clock', ${Date.UTC(2030, 0, 1)} * 1000::bigint + 7)` })
    const [row] = await db.query<{ at: string }>({
      text: `insert into toy.stamped default values returning to_char(at at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS.US') as at`,
    })
    expect(row?.at).toBe('2030-01-01 00:00:00.000007')
  })
})
