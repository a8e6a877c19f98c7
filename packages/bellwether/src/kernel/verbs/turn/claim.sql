-- A worker takes the pending rows of its target, oldest lease first (T3.2a, T3.2d). The row decides (T3.2e):
--   turn, ui_action       dispatched → running, or a takeover after a reclaim (T2.5: announced)     → 'turn'
--   tool_result, timeout  one wait is settled; the last one gives this worker the turn to resume    → 'resume'
--   stop                  the turn ends                                                             → 'ended', 'leased'
--   any other row         its turn or epoch is not its agent's: it becomes 'error' or 'skipped'     → 'refused'
-- The verb locks heads first, without waiting (hazard 8), and reads the rows after that, so that they are as fresh as
-- the lock (hazard 1). 'again' means that more rows are pending or that another session holds a head: claim again.
-- A worker with a turn that shared n deaths uses only 1/2^n of its slots, at least one, so that the turn that kills
-- workers is finally alone and the others survive. 'held_back' means that such a turn leaves no room now: claim again
-- when a turn of this worker has ended. With p_project, the verb sees the rows of that project only.
create or replace function state.claim(p_target text, p_worker text, p_max int, p_resume_lease_seconds double precision,
  p_project text default null)
returns table (what text, project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, inbox_id text,
  worker_target text, channel_id text, message_type state.message_type, payload state.payload, deaths int,
  recursion_depth int, traceparent text, correlation_id text, profile_id text, context_box_id text, output_box_id text,
  turn_deadline timestamptz, detail jsonb)
language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_seen text[];
  v_queue_tids tid[];
  v_head_tids tid[];
  v_others text[];
  v_taken int := 0;
  v_slots int;
  v_running int;
  v_deaths int;
  v_deaths_of int[];
  v_fits int := 0;
  v_shared boolean;
  v_skipped boolean;
  v_snapshot text[];
  -- Most claims find few rows: the first look takes at most 16 and tells whether a head was skipped. If so, or if there
  -- may be more rows, the second look takes them all.
  v_first boolean := true;
  v_max int := least(p_max, 16);
  v_position text := state.claim_position(p_target);
  v_from xid8 := split_part(v_position, ' ', 1)::xid8;
  v_also xid8[] := split_part(v_position, ' ', 2)::xid8[];
  v_left boolean := false;
  v_note text;
begin
  loop
    select coalesce(array_agg(l.inbox_id), '{}'), array_agg(l.queue_tid), array_agg(l.head_tid),
      array_agg(l.shared_deaths), coalesce(bool_or(l.head_tid is null), false),
      string_to_array(pg_current_snapshot()::text, ':'),
      -- Rare: the index is empty unless a worker died.
      exists (select from state.agent_state_head h where h.worker_target = p_target and h.shared_deaths > 0)
    into v_seen, v_queue_tids, v_head_tids, v_deaths_of, v_skipped, v_snapshot, v_shared from (
      select q.inbox_id, q.tid as queue_tid, h.tid as head_tid, h.shared_deaths from (
        select * from (
          select q.project_id, q.agent_id, q.inbox_id, q.ctid as tid from state.queue q
          where q.worker_target = p_target and q.status = 'pending' and q.pending_xid = any (v_also)
            and (p_project is null or q.project_id = p_project)
          order by q.pending_xid, q.created_at, q.inbox_id) also
        union all
        select * from (
          select q.project_id, q.agent_id, q.inbox_id, q.ctid as tid from state.queue q
          where q.worker_target = p_target and q.status = 'pending' and q.pending_xid >= v_from
            and (p_project is null or q.project_id = p_project)
          order by q.pending_xid, q.created_at, q.inbox_id) later) q
      left join lateral (
        select h.ctid as tid, h.shared_deaths from state.agent_state_head h
        where h.project_id = q.project_id and h.agent_id = q.agent_id
        order by h.epoch_group desc limit 1 for no key update skip locked) h on true
      where v_first or h.tid is not null
      limit v_max) l;
    exit when not v_first or not v_skipped and (cardinality(v_seen) < v_max or v_max = p_max);
    v_first := false;
    v_max := p_max;
  end loop;
  v_now := state.now();

  if v_shared then
    select count(*), coalesce(max(h.shared_deaths), 0) into v_running, v_deaths
    from state.agent_state_head h cross join lateral state.turn_row(h.active_agent_turn_id) i
    where h.awake and h.worker_target = p_target and h.status = 'running' and i.status = 'processing'
      and i.claimed_by = p_worker;
    v_slots := greatest(v_running + p_max, (select w.concurrency from state.workers w where w.worker_id = p_worker));
    if v_running >= state.slots_beside(v_slots, v_deaths) then
      what := 'held_back';
      return next;
      return;
    end if;
    -- The oldest rows that fit together; later rows do not overtake a turn that waits for room.
    while v_fits < cardinality(v_seen) loop
      v_deaths := greatest(v_deaths, v_deaths_of[v_fits + 1]);
      exit when v_running + v_fits >= state.slots_beside(v_slots, v_deaths);
      v_fits := v_fits + 1;
    end loop;
    if v_fits < cardinality(v_seen) then
      what := 'held_back';
      return next;
    end if;
    v_seen := v_seen[:v_fits];
    if what = 'held_back' and v_seen = '{}' then return; end if;
  end if;

  if v_seen <> '{}' then
    -- Turns, the common case: one statement for the complete batch. The locked heads are where the lock found them, and
    -- a head's lock covers the inbox rows of its agent. A queue row may be gone, and its place taken by another one.
    return query
    with rows as materialized (
      select s.ord, s.queue_tid, s.head_tid, i.tid as inbox_tid, i.inbox_id, h.project_id, h.agent_id,
        h.status as head_status, h.profile_id, h.context_box_id, h.output_box_id, h.turn_deadline, h.turn_epoch,
        h.active_channel_id, i.agent_turn_id, i.traceparent, i.worker_target, i.channel_id, i.message_type, i.payload,
        i.deaths, i.recursion_depth, i.correlation_id
      from unnest(v_seen, v_queue_tids, v_head_tids) with ordinality as s (inbox_id, queue_tid, head_tid, ord)
      cross join lateral (select * from state.agent_state_head h where h.ctid = s.head_tid offset 0) h
      cross join lateral (select i.ctid as tid, i.* from state.agent_inbox i where i.inbox_id = s.inbox_id offset 0) i
      where i.status = 'pending' and i.agent_turn_id = h.active_agent_turn_id and i.turn_epoch = h.turn_epoch
        and i.agent_id = h.agent_id and i.project_id = h.project_id and i.message_type in ('turn', 'ui_action')
        and h.status in ('dispatched', 'running')
      order by s.ord
    ), started as (
      -- An array of positions is one scan; a join would start a scan per row.
      update state.agent_state_head h set status = 'running', updated_at = v_now, activity = null, current_tool = null,
        -- Without its column in the list, the server parses the expression of epoch_group for every row.
        turn_epoch = h.turn_epoch
      where h.ctid = any (array(select r.head_tid from rows r))
    ), taken as (
      delete from state.queue q using rows r where q.ctid = r.queue_tid and q.inbox_id = r.inbox_id
    ), announced as (
      insert into state.outbox (project_id, channel_id, kind, status, agent_ids, agent_turn_ids, turn_epochs,
        traceparents, created_at, agent_turn_id)
      select project_id, active_channel_id, 'state', 'running', array_agg(agent_id), array_agg(agent_turn_id),
        array_agg(turn_epoch), case when count(traceparent) > 0 then array_agg(traceparent) end, v_now,
        -- A takeover has a row of its own, so that the index of moves can list it.
        max(agent_turn_id) filter (where head_status = 'running')
      from rows group by project_id, active_channel_id, ord / state.messages_max(),
        case when head_status = 'running' then ord end
    ), processing as (
      update state.agent_inbox i set status = 'processing', claimed_by = p_worker, processed_at = v_now,
        started_at = coalesce(i.started_at, v_now), in_queue = false, pending_xid = null
      where i.ctid = any (array(select r.inbox_tid from rows r))
      returning 1
    )
    select 'turn', r.project_id, r.agent_id, r.agent_turn_id, r.turn_epoch, r.inbox_id, r.worker_target, r.channel_id,
      r.message_type, r.payload, r.deaths, r.recursion_depth, r.traceparent, r.correlation_id, r.profile_id,
      r.context_box_id, r.output_box_id, r.turn_deadline,
      case when r.head_status = 'running' then '{"taken_over": true}'::jsonb end
    -- A row that another program changed without its head's lock has moved from its position.
    from rows r where case when (select count(*) from processing) < (select count(*) from rows)
      then state.raise_conflict() is null else true end;

    get diagnostics v_taken = row_count;

    -- The other rows.
    if v_taken < cardinality(v_seen) then
      delete from state.queue q using unnest(v_seen, v_queue_tids) as s (inbox_id, tid)
      where q.ctid = s.tid and q.inbox_id = s.inbox_id
        and not exists (select from state.inbox_row(s.inbox_id) i where i.in_queue);
      v_others := array(
        select i.inbox_id from unnest(v_seen) s (inbox_id) cross join lateral state.inbox_row(s.inbox_id) i
        where i.status = 'pending');
      if v_others <> '{}' then
        return query select r.what, r.project_id, r.agent_id, r.agent_turn_id, r.turn_epoch, r.inbox_id,
          r.worker_target, r.channel_id, h.message_type, h.payload, h.deaths, h.recursion_depth, h.traceparent,
          h.correlation_id, s.profile_id, s.context_box_id, s.output_box_id, s.turn_deadline, r.detail
        from state.route_receipts(v_others, p_worker, p_resume_lease_seconds) r
        left join state.agent_inbox h on r.what = 'resume' and h.inbox_id = r.inbox_id
        left join lateral state.head(r.project_id, r.agent_id) s on r.what = 'resume';
      end if;
    end if;

    -- When the worker last claimed something, within a second: the session remembers the half second of its last note.
    v_note := p_worker || ' ' || floor(extract(epoch from v_now) * 2);
    if current_setting('bellwether.last_claim', true) is distinct from v_note then
      update state.workers w set last_claim_at = v_now, seen_at = v_now where w.worker_id = p_worker
        and (w.last_claim_at is null or w.last_claim_at < v_now - interval '500 milliseconds');
      v_note := set_config('bellwether.last_claim', v_note, false);
    end if;
  end if;

  if v_first and not v_shared and cardinality(v_seen) < v_max and v_taken = cardinality(v_seen) and p_project is null
  then
    -- The look saw every pending row, and all of them are taken: later ones are of transactions that were open at the
    -- look, or began after it.
    v_position := state.set_claim_position(p_target, v_snapshot[2], concat_ws(',', '0', nullif(v_snapshot[3], ''),
      pg_current_xact_id_if_assigned()));
  else
    v_left := state.save_claim_position(p_target, v_from, v_also);
  end if;
  -- Two reads of the index by position: with one condition for both, the read would begin at the dead entries.
  if v_left and what is distinct from 'held_back' and exists (
    select from (
      select q.project_id, q.agent_id from state.queue q
      where q.worker_target = p_target and q.status = 'pending' and q.pending_xid = any (v_also)
      union all
      select q.project_id, q.agent_id from state.queue q
      where q.worker_target = p_target and q.status = 'pending' and q.pending_xid >= v_from) q
    cross join lateral state.head(q.project_id, q.agent_id) h
    where p_project is null or q.project_id = p_project)
  then
    what := 'again';
    return next;
  end if;
end $$;

-- How many turns a worker may run at once if one of them shared worker deaths, that one included.
create or replace function state.slots_beside(p_slots int, p_shared_deaths int) returns int
language sql immutable as 'select greatest(1, p_slots >> least(p_shared_deaths, 30))';

-- W2.3b: returns the same rows as a claim that resumes.
create or replace function state.reconcile(p_target text, p_worker text, p_max int,
  p_resume_lease_seconds double precision, p_project text default null)
returns table (what text, project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, inbox_id text,
  worker_target text, channel_id text, message_type state.message_type, payload state.payload, deaths int,
  recursion_depth int, traceparent text, correlation_id text, profile_id text, context_box_id text, output_box_id text,
  turn_deadline timestamptz, detail jsonb)
language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_turns text[];
begin
  v_turns := array(
    select h.active_agent_turn_id from state.turn_resume_ledger l
    join state.agent_inbox i on i.agent_turn_id = l.agent_turn_id and i.message_type in ('turn', 'ui_action')
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where l.status = 'pending' and h.worker_target = p_target and h.status = 'suspended' and h.waiting_tool_count = 0
      and h.active_agent_turn_id = l.agent_turn_id and h.turn_epoch = l.turn_epoch
      and (p_project is null or h.project_id = p_project)
    limit p_max for no key update of h skip locked);
  if v_turns = '{}' then return; end if;
  v_now := state.now();

  -- The lock above does not change the head, so a reconcile that committed just before it is seen only in these rows.
  with handed as (
    update state.turn_resume_ledger l set status = 'processing',
      lease_expires_at = v_now + make_interval(secs => p_resume_lease_seconds), tries = l.tries + 1
    from unnest(v_turns) t where l.agent_turn_id = t and l.status = 'pending' returning l.agent_turn_id)
  select coalesce(array_agg(distinct agent_turn_id), '{}') into v_turns from handed;

  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
    created_at)
  select distinct 'resume_replay', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, 'resume lease expired',
    jsonb_build_object('claimed_by', i.claimed_by), jsonb_build_object('claimed_by', p_worker), v_now
  from unnest(v_turns) t join state.agent_inbox i on i.agent_turn_id = t and i.message_type in ('turn', 'ui_action');

  return query
  select distinct 'resume', i.project_id, i.agent_id, i.agent_turn_id, h.turn_epoch, i.inbox_id, null::text,
    h.active_channel_id, i.message_type, i.payload, i.deaths, i.recursion_depth, i.traceparent, i.correlation_id,
    h.profile_id, h.context_box_id, h.output_box_id, h.turn_deadline, null::jsonb
  from unnest(v_turns) t join state.agent_inbox i on i.agent_turn_id = t and i.message_type in ('turn', 'ui_action')
  cross join lateral state.head(i.project_id, i.agent_id) h
  where h.active_agent_turn_id = t and h.status = 'suspended' and h.waiting_tool_count = 0;
end $$;
