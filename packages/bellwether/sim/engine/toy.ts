/** Toy verbs for the tests of the engine: each race in its smallest form, with and without the rule that prevents it. */
import { freshDatabase, type FreshDatabase } from '../../test/support/postgres.js'
import { openWorld, type World } from './index.js'

/** An empty database with the toy verbs. */
export async function toyDatabase(): Promise<FreshDatabase> {
  const fresh = await freshDatabase()
  await fresh.db.query({ text: toySchema })
  return fresh
}

/** A world on a database of its own. */
export async function toyWorld(): Promise<{ readonly world: World; readonly close: () => Promise<void> }> {
  const fresh = await toyDatabase()
  const world = await openWorld({ url: fresh.url, schemas: ['toy'], now: 'toy.now' })
  const close = async () => {
    await world.close()
    await fresh.drop()
  }
  return { world, close }
}

const toySchema = `
create schema toy;
create function toy.now() returns timestamptz language sql volatile as $$ select clock_timestamp() $$;

create table toy.counter (id int primary key, n int not null);
insert into toy.counter values (1, 0);
create function toy.bump() returns void language plpgsql as $$
declare v int;
begin
  select n into v from toy.counter where id = 1;
  update toy.counter set n = v + 1 where id = 1;
end $$;
create function toy.bump_locked() returns void language plpgsql as $$
declare v int;
begin
  select n into v from toy.counter where id = 1 for update;
  update toy.counter set n = v + 1 where id = 1;
end $$;

create table toy.pair (id int primary key, n int not null);
insert into toy.pair values (1, 0), (2, 0);
create function toy.swap(p_first int, p_second int) returns void language plpgsql as $$
begin
  update toy.pair set n = n + 1 where id = p_first;
  update toy.pair set n = n + 1 where id = p_second;
end $$;

create table toy.head (id int primary key, status text not null);
insert into toy.head values (1, 'idle');
create table toy.inbox (id int generated always as identity primary key, status text not null, at timestamptz default toy.now());

-- Hazard 1: one statement waits for the head and reads the queue with the snapshot it had before it waited.
create function toy.deliver_careless() returns void language plpgsql as $$
begin
  with head as (
    select id from toy.head where id = 1 for no key update
  ), next as (
    update toy.inbox i set status = 'pending' from head
    where i.id = (select min(id) from toy.inbox where status = 'queued') returning i.id
  )
  update toy.head h set status = case when exists (select 1 from next) then 'dispatched' else 'idle' end
  from head where h.id = head.id;
end $$;
create function toy.enqueue_careless() returns void language plpgsql as $$
begin
  insert into toy.inbox (status) values ('queued');
  perform 1 from toy.head where id = 1 and status = 'idle' for no key update skip locked;
  if found then perform toy.deliver_careless(); end if;
end $$;

create function toy.lease() returns void language plpgsql as $$
declare v_next int;
begin
  select min(id) into v_next from toy.inbox where status = 'queued';
  update toy.inbox set status = 'pending' where id = v_next;
  update toy.head set status = case when v_next is null then 'idle' else 'dispatched' end where id = 1;
end $$;
create function toy.deliver_careful() returns void language plpgsql as $$
begin
  perform 1 from toy.head where id = 1 for no key update;
  perform toy.lease();
end $$;
create function toy.enqueue_careful() returns void language plpgsql as $$
declare v_status text;
begin
  insert into toy.inbox (status) values ('queued');
  select status into v_status from toy.head where id = 1 for no key update;
  if v_status = 'idle' then perform toy.lease(); end if;
end $$;
`
