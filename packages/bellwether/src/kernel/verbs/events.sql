-- The outbox: who may read how far. A transaction that writes to it holds a shared advisory lock until its end. The key
-- of the lock is the last event_id that was assigned before: the transaction's own ids are higher, so readers may read
-- up to the lowest key (decision 0013). Transactions that do not write to the outbox hold no such lock.

-- Takes the lock before the first insert of a transaction assigns an id. The setting remembers that the lock is held; a
-- rollback to a savepoint reverts both.
create or replace function state.register_outbox_writer() returns trigger language plpgsql as $$
declare
  v_last bigint;
begin
  if current_setting('bellwether.outbox_writer', true) is distinct from pg_current_xact_id()::text then
    v_last := coalesce(pg_sequence_last_value('state.events_event_id_seq'), 0);
    -- The upper half of the first key is 'bw', which no other lock of this database uses; 47 bits hold the id.
    perform pg_advisory_xact_lock_shared(1651965952 + (v_last >> 31)::int, (v_last & 2147483647)::int),
      set_config('bellwether.outbox_writer', pg_current_xact_id()::text, true);
  end if;
  return null;
end $$;

create or replace trigger writers_are_registered before insert on state.events for each statement
  execute function state.register_outbox_writer();

-- The highest event_id up to which every event is committed or will never exist. The order of the two reads matters: a
-- writer that has an id below the first value had its lock before, and if the second read does not find the lock, then
-- the writer has ended and a later snapshot sees its rows. So the caller must read events in a later statement than
-- this function, and each statement must have its own snapshot.
create or replace function state.readable_until() returns bigint language plpgsql as $$
declare
  v_last bigint;
  v_writing bigint;
begin
  if pg_is_in_recovery() or current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'cannot read events on a standby or in a transaction with a fixed snapshot' using errcode = 'BW005',
      hint = 'read from the primary, in a transaction with isolation level read committed';
  end if;
  select coalesce(pg_sequence_last_value('state.events_event_id_seq'), 0) into v_last;
  select min((l.classid::bigint - 1651965952 << 31) + l.objid::bigint) into v_writing from pg_locks l
  where l.locktype = 'advisory' and l.objsubid = 2 and l.classid::bigint between 1651965952 and 1651965952 + 65535
    and l.database = (select d.oid from pg_database d where d.datname = current_database());
  return least(v_last, v_writing);
end $$;

-- Reads the outbox after a cursor, in order; nothing is skipped, in whatever order transactions commit (hazard 4). If
-- retention has removed rows after the cursor, the read fails instead of leaving a silent gap.
create or replace function state.read_events(p_xid xid8, p_event_id bigint, p_limit int)
returns table (xid xid8, event_id bigint, project_id text, subject text, kind state.event_kind, payload jsonb,
  agent_turn_id text, created_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
  v_until bigint;
begin
  if exists (select from state.event_cursors c where c.name = 'pruned' and (c.xid, c.event_id) > (p_xid, p_event_id))
    and p_xid > '0' then
    raise exception 'events after this cursor have been removed by retention' using errcode = 'BW004',
      hint = 'start again from the beginning, and read the present state first';
  end if;
  -- Most reads find nothing new: then the locks are not read.
  if not exists (select from state.events e where (e.xid, e.event_id) > (p_xid, p_event_id)) then
    return;
  end if;
  v_until := state.readable_until();
  return query
  select e.xid, e.event_id, e.project_id, e.subject, e.kind, e.payload, e.agent_turn_id, e.created_at
  from state.events e
  where (e.xid, e.event_id) > (p_xid, p_event_id) and (e.xid, e.event_id) <= (state.outbox_era(), v_until)
  order by e.xid, e.event_id limit p_limit;
end $$;

-- The cursor of the newest committed event, and of the last one that can be read now. Without events, both are where
-- retention stopped.
create or replace function state.outbox_end(out newest text, out readable text) language plpgsql as $$
declare
  v_until bigint := state.readable_until();
begin
  readable := coalesce((select c.xid || ':' || c.event_id from state.event_cursors c where c.name = 'pruned'), '0:0');
  newest := coalesce((select e.xid || ':' || e.event_id from state.events e
    order by e.xid desc, e.event_id desc limit 1), readable);
  readable := coalesce((select e.xid || ':' || e.event_id from state.events e
    where (e.xid, e.event_id) <= (state.outbox_era(), v_until) order by e.xid desc, e.event_id desc limit 1), readable);
end $$;

-- How long the first event that readers cannot read yet has waited, in seconds: an earlier writer has not ended.
create or replace function state.horizon_age() returns double precision language plpgsql as $$
declare
  v_until bigint := state.readable_until();
begin
  return coalesce((select greatest(extract(epoch from state.now() - e.created_at), 0) from state.events e
    where (e.xid, e.event_id) > (state.outbox_era(), v_until)
    order by e.xid, e.event_id limit 1), 0);
end $$;
