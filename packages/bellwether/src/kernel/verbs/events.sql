-- The outbox: who may read how far. A transaction that writes to it holds a shared advisory lock until its end. The key
-- of the lock is the last event_id that was assigned before: the transaction's own ids are higher, so readers may read
-- up to the lowest key (decision 0013). Transactions that do not write to the outbox hold no such lock.

-- Takes the lock before the first insert of a transaction assigns an id. The setting remembers that the lock is held; a
-- rollback to a savepoint reverts both.
create or replace function state.register_outbox_writer() returns trigger language plpgsql as $$
declare
  v_last bigint;
  v_locked boolean;
  v_writer text;
begin
  if current_setting('bellwether.outbox_writer', true) is distinct from pg_current_xact_id()::text then
    v_last := coalesce(pg_sequence_last_value('state.events_event_id_seq'), 0);
    -- The upper half of the first key is 'bw', which no other lock of this database uses; 47 bits hold the id. Both are
    -- expressions, because a statement would cost as much as the insert.
    v_locked := pg_advisory_xact_lock_shared(1651965952 + (v_last >> 31)::int, (v_last & 2147483647)::int) is null;
    v_writer := set_config('bellwether.outbox_writer', pg_current_xact_id()::text, true);
  end if;
  return null;
end $$;

create or replace trigger writers_are_registered before insert on state.outbox for each statement
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

-- The messages of a row. A row with a subject is its own message. A row without one is a move of a head: a state event,
-- or the end of a turn. The end of a turn is a task event with the id event_id; if the turn was leased, the state event
-- of the idle head follows with the id event_id + 1. The same move of several heads is one row with a list of turns,
-- each of which is a state event. The ids of rows count by messages_max(), so no other row has the ids between.
create or replace function state.messages_max() returns int language sql immutable parallel safe as 'select 16';

create or replace function state.event_subject(p_row state.outbox, p_agent_id text, p_kind text) returns text
language sql stable as $$
  select coalesce(p_row.subject, 'bw.v1.' || p_row.project_id || '.' || p_row.channel_id || '.evt.agent.' || p_agent_id
    || '.' || p_kind)
$$;

create or replace function state.state_payload(p_agent_turn_id text, p_agent_id text, p_status text, p_epoch bigint,
  p_traceparent text, p_error text) returns jsonb language sql stable as $$
  select jsonb_build_object('agent_turn_id', p_agent_turn_id, 'agent_id', p_agent_id, 'status', p_status,
      'turn_epoch', p_epoch, 'traceparent', state.trace_of(p_agent_turn_id, p_traceparent),
      'metadata', '{"waiting_tool_count": 0}'::jsonb)
    || case when p_error is not null then jsonb_build_object('error', p_error) else '{}' end
$$;

create or replace function state.event_payload(p_row state.outbox) returns jsonb language sql stable as $$
  select case when p_row.subject is not null then p_row.payload
    when p_row.kind = 'state' then state.state_payload(p_row.agent_turn_id, p_row.agent_id, p_row.status,
      p_row.turn_epoch, p_row.traceparent, p_row.error)
    else jsonb_build_object('agent_turn_id', p_row.agent_turn_id, 'agent_id', p_row.agent_id, 'status', p_row.status,
        'traceparent', state.trace_of(p_row.agent_turn_id, p_row.traceparent), 'output_box_id', p_row.output_box_id,
        'deliverable_card_id', p_row.deliverable_card_id)
      || case when p_row.output_box_id is null then '{"deliverable_error": "no_output_box"}'::jsonb else '{}' end
      || coalesce(p_row.payload, '{}')
      || case when p_row.error is not null then jsonb_build_object('error', p_row.error) else '{}' end end
$$;

create or replace function state.has_idle_message(p_row state.outbox) returns boolean language sql stable as $$
  select p_row.kind = 'task' and p_row.turn_epoch is not null
$$;

-- The id of the last message of a row.
create or replace function state.last_event_id(p_row state.outbox) returns bigint language sql stable as $$
  select p_row.event_id + case when p_row.agent_turn_ids is not null then cardinality(p_row.agent_turn_ids) - 1
    else state.has_idle_message(p_row)::int end
$$;

create or replace view state.events as
select o.event_id, o.xid, o.project_id, state.event_subject(o, o.agent_id, o.kind) as subject, o.kind,
  state.event_payload(o) as payload, o.agent_turn_id, o.created_at
from state.outbox o where o.agent_turn_ids is null
union all
select o.event_id + 1, o.xid, o.project_id, state.event_subject(o, o.agent_id, 'state'), 'state'::state.event_kind,
  state.state_payload(o.agent_turn_id, o.agent_id, 'idle', o.turn_epoch, o.traceparent, o.error), o.agent_turn_id,
  o.created_at
from state.outbox o where state.has_idle_message(o)
union all
select o.event_id + m.n - 1, o.xid, o.project_id, state.event_subject(o, m.agent_id, 'state'),
  'state'::state.event_kind,
  state.state_payload(m.agent_turn_id, m.agent_id, o.status, m.turn_epoch, m.traceparent, null), m.agent_turn_id,
  o.created_at
from state.outbox o cross join lateral unnest(o.agent_ids, o.agent_turn_ids, o.turn_epochs, o.traceparents)
  with ordinality as m (agent_id, agent_turn_id, turn_epoch, traceparent, n)
where o.agent_turn_ids is not null;

-- Reads the outbox after a cursor, in order; nothing is skipped, in whatever order transactions commit (hazard 4). If
-- retention has removed rows after the cursor, the read fails instead of leaving a silent gap.
create or replace function state.read_events(p_xid xid8, p_event_id bigint, p_limit int)
returns table (xid xid8, event_id bigint, project_id text, subject text, kind state.event_kind, payload jsonb,
  agent_turn_id text, created_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
  v_until bigint;
  -- No row before this one has a message after the cursor. Rows of earlier versions are closer together.
  v_first bigint := p_event_id - state.messages_max() + 1;
begin
  if exists (select from state.event_cursors c where c.name = 'pruned' and (c.xid, c.event_id) > (p_xid, p_event_id))
    and p_xid > '0' then
    raise exception 'events after this cursor have been removed by retention' using errcode = 'BW004',
      hint = 'start again from the beginning, and read the present state first';
  end if;
  -- Most reads find nothing new: then the locks are not read. The row of the cursor may have more messages.
  if not exists (select from state.outbox o where (o.xid, o.event_id) >= (p_xid, v_first)
    and (o.xid, state.last_event_id(o)) > (p_xid, p_event_id)) then
    return;
  end if;
  v_until := state.readable_until();
  return query
  with stored as materialized (
    select o.* from state.outbox o
    where (o.xid, o.event_id) >= (p_xid, v_first) and (o.xid, o.event_id) <= (state.outbox_era(), v_until)
    order by o.xid, o.event_id limit p_limit + state.messages_max()
  )
  select o.xid, m.event_id, o.project_id, m.subject, m.kind, m.payload, m.agent_turn_id, o.created_at
  from stored o cross join lateral (
    select o.event_id, state.event_subject(o, o.agent_id, o.kind) as subject, o.kind,
      state.event_payload(o) as payload, o.agent_turn_id
    where o.agent_turn_ids is null
    union all
    select o.event_id + 1, state.event_subject(o, o.agent_id, 'state'), 'state'::state.event_kind,
      state.state_payload(o.agent_turn_id, o.agent_id, 'idle', o.turn_epoch, o.traceparent, o.error), o.agent_turn_id
    where state.has_idle_message(o)
    union all
    select o.event_id + t.n - 1, state.event_subject(o, t.agent_id, 'state'), 'state'::state.event_kind,
      state.state_payload(t.agent_turn_id, t.agent_id, o.status, t.turn_epoch, t.traceparent, null), t.agent_turn_id
    from unnest(o.agent_ids, o.agent_turn_ids, o.turn_epochs, o.traceparents) with ordinality
      as t (agent_id, agent_turn_id, turn_epoch, traceparent, n)) m
  where (o.xid, m.event_id) > (p_xid, p_event_id)
  order by o.xid, m.event_id limit p_limit;
end $$;

-- The cursor of the last message of a row.
create or replace function state.last_cursor(p_row state.outbox) returns text language sql stable as $$
  select p_row.xid || ':' || state.last_event_id(p_row)
$$;

-- The cursor of the newest committed event, and of the last one that can be read now. Without events, both are where
-- retention stopped.
create or replace function state.outbox_end(out newest text, out readable text) language plpgsql as $$
declare
  v_until bigint := state.readable_until();
begin
  readable := coalesce((select c.xid || ':' || c.event_id from state.event_cursors c where c.name = 'pruned'), '0:0');
  newest := coalesce((select state.last_cursor(o) from state.outbox o
    order by o.xid desc, o.event_id desc limit 1), readable);
  readable := coalesce((select state.last_cursor(o) from state.outbox o
    where (o.xid, o.event_id) <= (state.outbox_era(), v_until) order by o.xid desc, o.event_id desc limit 1), readable);
end $$;

-- How long the first event that readers cannot read yet has waited, in seconds: an earlier writer has not ended.
create or replace function state.horizon_age() returns double precision language plpgsql as $$
declare
  v_until bigint := state.readable_until();
begin
  return coalesce((select greatest(extract(epoch from state.now() - o.created_at), 0) from state.outbox o
    where (o.xid, o.event_id) > (state.outbox_era(), v_until)
    order by o.xid, o.event_id limit 1), 0);
end $$;

-- The turns that failed since the position of a reader, and the next position; no row if there are no new events. One
-- statement while nothing happens, and only failures leave the database. A run of a task and a task of a batch are left
-- out: the board, or the parent, decides whether it is tried again.
create or replace function state.read_failures(p_name text, p_limit int)
returns table (cursor_from text, cursor_to text, failures jsonb) language plpgsql as $$
#variable_conflict use_column
declare
  c state.event_cursors;
  v_until bigint;
begin
  select * into c from state.event_cursors e where e.name = p_name;
  if not exists (select from state.outbox o where (o.xid, o.event_id) > (c.xid, c.event_id)) then return; end if;
  if exists (select from state.event_cursors e where e.name = 'pruned' and (e.xid, e.event_id) > (c.xid, c.event_id))
    and c.xid > '0' then
    raise exception 'events after this cursor have been removed by retention' using errcode = 'BW004';
  end if;
  v_until := state.readable_until();
  return query
  with page as materialized (
    select o.* from state.outbox o
    where (o.xid, o.event_id) > (c.xid, c.event_id) and (o.xid, o.event_id) <= (state.outbox_era(), v_until)
    order by o.xid, o.event_id limit p_limit
  ), failed as (
    select o.event_id, o.project_id, o.agent_turn_id, o.created_at, p.payload
    from page o cross join lateral (select state.event_payload(o) as payload) p
    where o.kind = 'task' and p.payload ->> 'status' in ('failed', 'timeout')
      and not exists (select from state.turn_row(o.agent_turn_id) i where i.payload ?| '{task_id, batch_id}')
  )
  select c.xid || ':' || c.event_id, (select o.xid || ':' || o.event_id from page o
      order by o.xid desc, o.event_id desc limit 1),
    (select coalesce(jsonb_agg(to_jsonb(f) order by f.event_id), '[]') from failed f)
  where exists (select from page);
end $$;
