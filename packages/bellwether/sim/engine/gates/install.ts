/**
 * Prepares a database for the simulation: the schema `sim` with the gate and the virtual clock, and gates inside every PL/pgSQL function of the
 * schemas under test. A session that is not a fibre (`sim.fibre` unset) passes every gate at once, so the database still works for other
 * clients. control.ts steps the gates.
 */
import type { Queryable } from '../../../src/ports/database/database.js'
import { instrument } from './instrument.js'

/** First half of the advisory keys of gates; the second is twice the fibre's slot, plus 0 or 1. */
const gateClass = 0x51e9

/**
 * How a gate works: while a fibre runs, the scheduler's session holds exactly one of the two keys of its slot. The gate finds out which one,
 * notifies its client (a notice is flushed at once) and waits for that key; `pass` takes the other key before it releases this one, so
 * the next gate blocks again. The order matters: if the gate notified before it knew its key, it could be passed too early and wait
 * without end. A counter would not work, because a rollback would reset it.
 * The clock is an unlogged sequence: readers see it at once, whatever their snapshot, and setting it takes neither an xid nor a row lock.
 */
const world = `
create schema if not exists sim;
create unlogged sequence if not exists sim.clock minvalue 0;

create or replace function sim.gate(label text) returns boolean language plpgsql volatile as $$
declare
  slot integer := nullif(current_setting('sim.fibre', true), '')::integer;
  key integer := slot * 2;
begin
  if slot is null then return true; end if;
  if pg_try_advisory_lock(${gateClass}, key) then
    perform pg_advisory_unlock(${gateClass}, key);
    key := key + 1;
  end if;
  raise notice using errcode = 'SIM01', message = label;
  perform pg_advisory_lock(${gateClass}, key), pg_advisory_unlock(${gateClass}, key);
  return true;
end $$;

create or replace function sim.hold(key integer) returns void language plpgsql as $$
begin
  if not pg_try_advisory_lock(${gateClass}, key) then raise exception 'gate key % is taken', key; end if;
end $$;

create or replace function sim.pass(held integer, next integer, clock_us bigint) returns void language plpgsql as $$
begin
  perform setval('sim.clock', clock_us);
  perform sim.hold(next);
  perform pg_advisory_unlock(${gateClass}, held);
end $$;

create or replace function sim.drop(held integer) returns void language sql as
  $$ select pg_advisory_unlock(${gateClass}, held) $$;

create or replace function sim.now() returns timestamptz language sql volatile as
  $$ select timestamptz 'epoch' + pg_sequence_last_value('sim.clock'::regclass) * interval '1 microsecond' $$;
`

/** Held while the session lives, because two schedulers would take each other's keys. */
export async function claimDatabase(db: Queryable): Promise<boolean> {
  const text = `select pg_try_advisory_lock(${gateClass}, -1) as mine`
  const [row] = await db.query<{ mine: boolean }>({ text })
  return row?.mine === true
}

export async function installGates(db: Queryable): Promise<void> {
  await db.query({ text: world })
}

/** Makes the function `name` (for example `state.now`) return the virtual clock; defaults and views that use it stay valid. */
export async function replaceClock(db: Queryable, name: string): Promise<void> {
  const text = `create or replace function ${name}() returns timestamptz language sql volatile as $$ select sim.now() $$`
  await db.query({ text })
}

interface Definition {
  readonly name: string
  readonly body: string
  readonly definition: string
}

/**
 * Adds gates to all functions except trigger functions, which run inside the step of their statement, and immutable functions, which may
 * be part of an index. Returns the names of the functions with gates.
 */
export async function instrumentSchema(db: Queryable, schema: string): Promise<string[]> {
  const text = `
    select p.proname as name, p.prosrc as body, pg_get_functiondef(p.oid) as definition
    from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace = to_regnamespace($1) and l.lanname = 'plpgsql' and p.prokind in ('f', 'p')
      and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype) and p.provolatile <> 'i'
      and position('sim.gate(' in p.prosrc) = 0
    order by p.proname, p.oid`
  const found = await db.query<Definition>({ text, values: [schema] })
  for (const { name, body, definition } of found) {
    const at = definition.lastIndexOf(body)
    if (at < 0) throw new Error(`The definition of ${schema}.${name} does not contain its body`)
    const gated = definition.slice(0, at) + instrument(body, name) + definition.slice(at + body.length)
    await db.query({ text: gated })
  }
  return found.map(({ name }) => name)
}
