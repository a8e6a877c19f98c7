import { describe, expect, it } from 'vitest'
import { instrument } from './instrument.js'

/** The gates of a body, each with the following text. */
function gates(body: string): string[] {
  const found = instrument(body, 'f').matchAll(/assert sim\.gate\('f:\d+ ?([^']*)'\); (?=(.{0,24}))/g)
  return [...found].map(([, label, next]) => `${label} | ${next!.trim()}`)
}

const plain = (body: string): string => instrument(body, 'f').replaceAll(/assert sim\.gate\('[^']*'\); /g, '')

describe('instrument', () => {
  it('adds a gate before each statement that can use the database, and changes nothing else', () => {
    const body = `
declare v int := 1;
begin
  select n into v from t where id = 1;
  v := v + 1;
  update t set n = v where id = 1;
  if not found then return 0; end if;
  return v;
end`
    expect(gates(body)).toEqual(['select | select n into v from t w', 'update | update t set n = v where'])
    expect(plain(body)).toBe(body)
  })

  it('numbers the gates of a function and doubles quotes in its name', () => {
    const out = instrument(`begin perform a(); perform b(); end`, `it's`)
    expect(out).toBe(
      `begin assert sim.gate('it''s:1 perform'); perform a(); assert sim.gate('it''s:2 perform'); perform b(); end`,
    )
  })

  it('ignores keywords in strings, dollar quotes, quoted names and comments', () => {
    const body = `begin
  -- begin; if x then
  /* end; /* nested; */ update t; */
  insert into t values ('; end if; it''s', e'\\'; end', $q$ begin; $q$, $$ loop; $$, "end; if");
  perform 1;
end;`
    expect(gates(body).map((gate) => gate.split(' |')[0])).toEqual(['insert', 'perform'])
    expect(plain(body)).toBe(body)
  })

  it('distinguishes CASE expressions, CASE statements and branches', () => {
    const body = `begin
  if case when a then b else c end then
    update t set n = case when n > 1 then 2 else 3 end;
  elsif exists (select 1 from t) then
    delete from t;
  else
    perform f(case x when 1 then 2 end);
  end if;
  case v
    when 1, 2 then insert into t values (1);
    when 3 then null;
    else perform g();
  end case;
  case when exists (select 1 from u) then perform h(); end case;
  perform last();
end`
    expect(gates(body).map((gate) => gate.split(' |')[0])).toEqual([
      'update',
      'delete',
      'perform',
      'insert',
      'perform',
      'case',
      'perform',
      'perform',
    ])
  })

  it('instruments loops and puts the gate before a label', () => {
    const body = `begin
  <<outer>>
  for r in select * from t order by id for update loop
    while i < 3 loop
      update t set n = 1;
      exit outer when i > 1;
    end loop;
    foreach x in array xs loop perform f(x); end loop;
    for i in 1..10 loop continue when i < 5; insert into t values (i); end loop;
  end loop outer;
  loop delete from t; exit; end loop;
end`
    expect(gates(body)).toEqual([
      'for | <<outer>>',
      'update | update t set n = 1;',
      'perform | perform f(x); end loop;',
      'insert | insert into t values (i)',
      'delete | delete from t; exit; end',
    ])
  })

  it('instruments nested blocks and exception handlers', () => {
    const body = `<<top>>
declare c cursor for select case when true then 1 end from t;
begin
  begin
    insert into t values (1);
  exception
    when unique_violation or check_violation then
      perform retry();
    when others then
      declare w int; begin update t set n = w; end;
      raise;
  end;
  return query select 1;
  return query execute 'select 1';
  with x as (delete from t returning *) insert into u select * from x;
end top;`
    expect(gates(body).map((gate) => gate.split(' |')[0])).toEqual([
      'insert',
      'perform',
      'update',
      'return query',
      'return query',
      'with',
    ])
  })

  it('adds gates to statements that may call a verb or read a table, and none to assignments', () => {
    const body = `#variable_conflict use_column
declare n int;
begin
  v := state.verb();
  v := state.now();
  v := coalesce(a, b) + cardinality(c);
  v := (select 1);
  v := array(select id from t);
  v.field := x -> 'y';
  v = 1;
  get diagnostics n = row_count;
  if verb(1) then null; end if;
  if (a or b) and not (c) then return next; end if;
  raise exception 'no; end if' using errcode = 'BW001';
  return verb(2);
  return;
end`
    expect(gates(body)).toEqual([
      'v | v := state.verb();',
      'v | v := (select 1);',
      'v | v := array(select id fro',
      'v | v = 1;',
      'if | if verb(1) then null; en',
      'return verb | return verb(2);',
    ])
  })

  it('rejects a body that it cannot parse', () => {
    expect(() => instrument('begin if true perform 1; end', 'f')).toThrow(/cannot instrument f: no "then"/)
  })
})
