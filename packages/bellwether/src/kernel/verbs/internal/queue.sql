-- The queue lists the inbox rows that wait (decision 0015). Enqueue, dispatch_next and claim write it together with the
-- inbox row, under the head's lock, and set in_queue. For every other statement that changes the status or the target
-- of a row, also of another program, the triggers below keep the queue. A queue row without its inbox row is deleted by
-- the next claim that finds it.

create or replace function state.keep_queue() returns trigger language plpgsql as $$
#variable_conflict use_column
begin
  if tg_op <> 'INSERT' and old.in_queue then
    -- By the columns of the index that lists the row.
    if old.status = 'queued' then
      delete from state.queue q where q.project_id = old.project_id and q.agent_id = old.agent_id
        and q.created_at = old.created_at and q.inbox_id = old.inbox_id and q.status = 'queued';
    elsif old.status = 'pending' then
      delete from state.queue q where q.worker_target = old.worker_target and q.pending_xid = old.pending_xid
        and q.created_at = old.created_at and q.inbox_id = old.inbox_id and q.status = 'pending';
    else
      delete from state.queue q where q.worker_target = old.worker_target and q.inbox_id = old.inbox_id
        and q.status = 'processing';
    end if;
  end if;
  if tg_op = 'DELETE' then return null; end if;
  -- A row that returns to pending or changes its target may lie before the positions of the sessions: it goes first.
  new.in_queue := new.status in ('queued', 'pending', 'processing');
  new.pending_xid := case when new.status <> 'pending' then null when tg_op = 'INSERT' then pg_current_xact_id()
    else '0'::xid8 end;
  if new.in_queue then
    insert into state.queue (project_id, agent_id, worker_target, status, pending_xid, created_at, inbox_id)
    values (new.project_id, new.agent_id, new.worker_target, new.status, new.pending_xid, new.created_at, new.inbox_id);
  end if;
  update state.agent_inbox i set in_queue = new.in_queue, pending_xid = new.pending_xid
  where i.inbox_id = new.inbox_id;
  return null;
end $$;

-- The triggers run after the row is written, because a BEFORE trigger would lock every row that a claim or an ending
-- updates. Their conditions are false for the update above.
create or replace trigger queue_follows_insert after insert on state.agent_inbox for each row
  when (not new.in_queue and new.status in ('queued', 'pending', 'processing')) execute function state.keep_queue();
-- A row that claim made 'processing' is not in the queue, because its head lists it; one that another program did is.
create or replace trigger queue_follows_update after update on state.agent_inbox for each row
  when (not new.in_queue and new.status in ('queued', 'pending') or new.in_queue and (old.worker_target
    <> new.worker_target or old.status <> new.status and old.pending_xid is not distinct from new.pending_xid))
  execute function state.keep_queue();
create or replace trigger queue_follows_delete after delete on state.agent_inbox for each row
  when (old.in_queue) execute function state.keep_queue();

-- The position at which the claims of a session continue to read the pending rows of a target. Rows are ordered by the
-- transaction that made them pending. A new row has the id of a transaction that was open at the last read, or a later
-- id, so a session reads these rows and skips the dead entries before them (decision 0014).

-- The first transaction that the session reads, and the earlier ones that it reads as well: 'xid {xid,…}'.
create or replace function state.claim_position(p_target text) returns text language sql stable as $$
  select coalesce(nullif(current_setting('bellwether.claim_' || md5(p_target), true), ''), '0 {}')
$$;

create or replace function state.set_claim_position(p_target text, p_from text, p_also text) returns text
language sql volatile as $$
  select set_config('bellwether.claim_' || md5(p_target), p_from || ' {' || p_also || '}', false)
$$;

-- Saves the position of the next claim and returns whether pending rows are left. A rollback reverts it.
create or replace function state.save_claim_position(p_target text, p_from xid8, p_also xid8[]) returns boolean
language plpgsql as $$
#variable_conflict use_column
declare
  v_left boolean;
  v_position text;
begin
  -- One statement, so that the rows and the open transactions are of one snapshot.
  select s.first_xid is not null or s.also_left <> '{}', state.set_claim_position(p_target, f.from_xid::text,
      array_to_string(array(
        select x from (select unnest(s.also_left) union select pg_snapshot_xip(s.snapshot) union select '0'::xid8
          union select pg_current_xact_id_if_assigned()) o (x) where x < f.from_xid order by x), ','))
    into v_left, v_position
  from (
    select pg_current_snapshot() as snapshot, (
        select q.pending_xid from state.queue q
        where q.worker_target = p_target and q.status = 'pending' and q.pending_xid >= p_from
        order by q.pending_xid limit 1) as first_xid,
      array(select x from unnest(p_also) x where exists (select from state.queue q
        where q.worker_target = p_target and q.status = 'pending' and q.pending_xid = x offset 0)) as also_left
    offset 0) s
  cross join lateral (select least(s.first_xid, pg_snapshot_xmax(s.snapshot)) as from_xid offset 0) f;
  return v_left;
end $$;
