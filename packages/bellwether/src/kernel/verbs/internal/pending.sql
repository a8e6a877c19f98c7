-- The position at which the claims of a session continue to read the pending rows of a target. Rows are ordered by the
-- transaction that made them pending. A new row has the id of a transaction that was open at the last read, or a later
-- id, so a session reads these rows and skips the dead entries before them (decision 0014).

-- The first transaction that the session reads, and the earlier ones that it reads as well.
create or replace function state.claim_position(p_target text, out read_from xid8, out read_also xid8[])
language plpgsql stable as $$
declare
  v_known text := current_setting('bellwether.claim_' || md5(p_target), true);
begin
  read_from := coalesce(nullif(split_part(v_known, ' ', 1), ''), '0')::xid8;
  read_also := coalesce(nullif(split_part(v_known, ' ', 2), ''), '{}')::xid8[];
end $$;

-- Saves the position of the next claim and returns whether pending rows are left. A rollback reverts it.
create or replace function state.save_claim_position(p_target text, p_from xid8, p_also xid8[]) returns boolean
language plpgsql as $$
#variable_conflict use_column
declare
  v_snapshot pg_snapshot;
  v_first xid8;
  v_from xid8;
  v_left xid8[];
begin
  -- One statement, so that the rows and the open transactions are of one snapshot.
  select pg_current_snapshot(), (
    select i.pending_xid from state.agent_inbox i
    where i.worker_target = p_target and i.status = 'pending' and i.pending_xid >= p_from
    order by i.pending_xid limit 1) into v_snapshot, v_first;
  v_from := least(v_first, pg_snapshot_xmax(v_snapshot));
  v_left := array(select x from unnest(p_also) x where exists (select from state.agent_inbox i
    where i.worker_target = p_target and i.status = 'pending' and i.pending_xid = x offset 0));
  perform set_config('bellwether.claim_' || md5(p_target), v_from || ' ' || array(
    select x from (select unnest(v_left) union select pg_snapshot_xip(v_snapshot) union select '0'::xid8
      union select pg_current_xact_id_if_assigned()) o (x) where x < v_from order by x)::text, false);
  return v_first is not null or v_left <> '{}';
end $$;

-- A row that returns to pending or changes its target may lie before the positions of the sessions: it goes first.
create or replace function state.put_first() returns trigger language plpgsql as $$
begin
  new.pending_xid := '0';
  return new;
end $$;

create or replace trigger returning_rows_go_first before update on state.agent_inbox for each row
  when (new.status = 'pending' and (old.worker_target <> new.worker_target
    or old.status <> 'pending' and old.pending_xid is not distinct from new.pending_xid))
  execute function state.put_first();
