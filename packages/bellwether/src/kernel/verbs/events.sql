-- Reads the outbox after a cursor (xid, event_id). A row is visible only when no transaction that could commit before
-- it is running, so that nothing is skipped (hazard 4). If retention has removed rows after the cursor, the read fails
-- instead of leaving a silent gap.
create or replace function state.read_events(p_xid xid8, p_event_id bigint, p_limit int)
returns table (xid xid8, event_id bigint, project_id text, subject text, kind state.event_kind, payload jsonb,
  agent_turn_id text, created_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
  v_horizon xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
  if exists (select from state.event_cursors c where c.name = 'pruned' and (c.xid, c.event_id) > (p_xid, p_event_id))
    and p_xid > '0' then
    raise exception 'events after this cursor have been removed by retention' using errcode = 'BW004',
      hint = 'start again from the beginning, and read the present state first';
  end if;
  return query
  select e.xid, e.event_id, e.project_id, e.subject, e.kind, e.payload, e.agent_turn_id, e.created_at
  from state.events e
  where (e.xid, e.event_id) > (p_xid, p_event_id) and e.xid < v_horizon
  order by e.xid, e.event_id limit p_limit;
end $$;

-- How long the oldest transaction has held back the horizon, in seconds; readers do not advance during that time. It
-- covers all databases of the server, because a snapshot's xmin does.
create or replace function state.horizon_age() returns double precision language sql volatile as $$
  select coalesce(extract(epoch from max(state.now() - a.xact_start)), 0) from pg_stat_activity a
  where a.backend_xid is not null
$$;
