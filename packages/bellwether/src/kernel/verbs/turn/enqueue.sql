-- Takes turns into inboxes (a row is also its edge) and leases idle agents at once (T3.1a, T3.1b, T1.5).
-- Repeating an id or a correlation id changes nothing and returns the existing row ('duplicate'). A turn is 'enqueued'
-- if it waits in the queue, and 'leased' if its agent took it at once. p_brief: if all turns of the call were leased,
-- one 'all_leased' per place to ring stands for them.
-- Items: {inbox_id, agent_turn_id, project_id, agent_id, channel_id?, correlation_id?, recursion_depth?, traceparent?,
-- parent_step_id?, source_agent_id?, source_agent_turn_id?, source_step_id?, payload?, box?: {box_id, cards: [...]},
-- given_context_box_id?, given_output_box_id?: existing boxes of this project and kind (T5.1)}.
create or replace function state.enqueue(p_turns state.new_turn[], p_brief boolean default false)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_max_depth int;
  v_deadline_seconds double precision;
  v_projects text[] := array[(p_turns[1]).project_id];
  v_agents text[] := array[(p_turns[1]).agent_id];
  v_heads tid[];
  v_ranked boolean;
  v_later bigint[] := '{}';
  v_done state.verdict[];
  v_new text[];
  v_items state.new_turn[] := p_turns;
  v_left boolean;
  v_boxed boolean;
  v_set_back boolean;
  v_known boolean;
begin
  -- One turn is the common case: every statement that it does not need is a tenth of its cost.
  if cardinality(v_items) <> 1 then
    select array_agg(x.project_id), array_agg(x.agent_id), bool_or(x.given_output_box_id is not null)
      into v_projects, v_agents, v_ranked from unnest(v_items) x;
  end if;
  -- Locks all heads first, whatever their status, in one order (hazards 1 and 8).
  v_heads := state.lock_heads(v_projects, v_agents);
  if array_position(v_heads, null) is not null then
    -- Creates the missing head of an agent in the roster, under the lock of its roster row, then continues under the
    -- head's lock.
    perform from resource.project_agents a join unnest(v_items) x on a.project_id = x.project_id
      and a.agent_id = x.agent_id
    where not exists (select from state.head(a.project_id, a.agent_id))
    order by a.project_id, a.agent_id for no key update of a;
    insert into state.agent_state_head (project_id, agent_id, profile_id, worker_target, updated_at, awake)
    select distinct a.project_id, a.agent_id, a.profile_id, a.worker_target, state.now(), false
    from unnest(v_items) x join resource.project_agents a on a.project_id = x.project_id and a.agent_id = x.agent_id
    where not exists (select from state.head(a.project_id, a.agent_id))
    order by a.project_id, a.agent_id;
    v_heads := state.lock_heads(v_projects, v_agents);
  end if;

  -- Whether an id is known is asked once for all items, because new ids are neighbours in the index.
  select state.now(), l.max_recursion_depth, l.turn_deadline_seconds, exists (select from state.agent_inbox i
    where i.inbox_id = any (array(select x.inbox_id from unnest(v_items) x)))
  into v_now, v_max_depth, v_deadline_seconds, v_known from state.limits l;

  -- The items behind another one of their agent or of their output box; usually there are none.
  if cardinality(v_items) > 1 then
    if v_ranked or (select count(distinct t) from unnest(v_heads) t) < cardinality(v_heads) then
      v_later := array(
        select l.ord from (
          select x.ord, row_number() over (partition by h.project_id, h.agent_id order by x.ord) as nth_of_agent,
            row_number() over (partition by coalesce(x.given_output_box_id, h.output_box_id) order by x.ord)
              as nth_of_box
          from unnest(v_heads, array(select i.given_output_box_id from unnest(v_items) i)) with ordinality
            as x (tid, given_output_box_id, ord)
          join state.agent_state_head h on h.ctid = x.tid) l
        where l.nth_of_agent > 1 or l.nth_of_box > 1);
    end if;
  end if;

  -- Rows enter an agent's inbox only under its lock: a row that is absent now cannot appear during this call. A
  -- repeated id or correlation id inside one batch is the caller's error and fails the batch.
  with items as materialized (
    select x.inbox_id, x.agent_turn_id, x.project_id, x.agent_id, coalesce(x.channel_id, 'public') as channel_id,
      x.correlation_id, coalesce(x.recursion_depth, 0) as recursion_depth, x.traceparent, x.parent_step_id,
      x.source_agent_id, x.source_agent_turn_id, x.source_step_id, coalesce(x.payload, '{}') as payload,
      x.box is not null as boxed, x.ord, v_heads[x.ord] as head_tid, h.worker_target, h.turn_epoch + 1 as epoch,
      h.status = 'idle' as idle, b.output_box_id,
      -- An idle agent with an empty queue and a free box takes its first turn at once; other turns are queued.
      h.status = 'idle' and x.ord <> all (v_later)
        and case when b.output_box_id is not distinct from h.home_box_id
          then not exists (select from state.borrowed_boxes o where o.box_id = b.output_box_id offset 0)
          else state.may_borrow_box(b.output_box_id) end
        and not exists (select from state.queue q
          where q.project_id = x.project_id and q.agent_id = x.agent_id and q.status = 'queued'
            and q.created_at >= coalesce(h.queued_since, '-infinity') offset 0) as lease,
      h.queued_since > v_now as set_back
    from unnest(v_items) with ordinality as x (inbox_id, agent_turn_id, project_id, agent_id, channel_id,
      correlation_id, recursion_depth, traceparent, parent_step_id, source_agent_id, source_agent_turn_id,
      source_step_id, payload, box, given_context_box_id, given_output_box_id, ord)
    cross join lateral (select * from state.agent_state_head h where h.ctid = v_heads[x.ord] offset 0) h
    cross join lateral (select coalesce(x.given_output_box_id, h.output_box_id) as output_box_id) b
    where coalesce(x.recursion_depth, 0) <= v_max_depth
      and (x.given_context_box_id is null or exists (select from cards.boxes b
        where b.box_id = x.given_context_box_id and b.project_id = x.project_id and b.kind = 'context' offset 0))
      and (x.given_output_box_id is null or exists (select from cards.boxes b
        where b.box_id = x.given_output_box_id and b.project_id = x.project_id and b.kind = 'output' offset 0))
      and not exists (select from resource.project_agents a
        where a.project_id = x.project_id and a.agent_id = x.agent_id and a.status = 'retired' offset 0)
      and (not v_known or not exists (select from state.agent_inbox i where i.inbox_id = x.inbox_id offset 0))
      and (x.correlation_id is null or not exists (select from state.agent_inbox i
        where i.project_id = x.project_id and i.agent_id = x.agent_id
        and i.correlation_id = x.correlation_id and i.message_type in ('turn', 'ui_action') offset 0))
  ), put as (
    insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      turn_epoch, correlation_id, agent_turn_id, recursion_depth, traceparent, parent_step_id, source_agent_id,
      source_agent_turn_id, source_step_id, payload, created_at, in_queue, pending_xid, leased_at)
    select inbox_id, project_id, agent_id, worker_target, channel_id, 'turn',
      case when lease then 'pending' else 'queued' end,
      case when lease then epoch end, correlation_id, agent_turn_id, recursion_depth, traceparent,
      parent_step_id, source_agent_id, source_agent_turn_id, source_step_id, payload, v_now,
      true, case when lease then pg_current_xact_id() end, case when lease then v_now end
    from items
  ), listed as (
    insert into state.queue (project_id, agent_id, worker_target, status, pending_xid, created_at, inbox_id)
    select project_id, agent_id, worker_target, case when lease then 'pending' else 'queued' end,
      case when lease then pg_current_xact_id() end, v_now, inbox_id
    from items
  ), leased as (
    -- The move of state.lease, in the same statement: a second one would cost as much as the rest of this call.
    update state.agent_state_head h set
      status = 'dispatched', turn_epoch = x.epoch, active_agent_turn_id = x.agent_turn_id,
      active_channel_id = x.channel_id, active_recursion_depth = x.recursion_depth, parent_step_id = x.parent_step_id,
      trace_id = split_part(x.traceparent, '-', 2), context_box_id = x.payload ->> 'context_box_id',
      output_box_id = x.output_box_id, expecting_correlation_id = null, holds = x.payload ? 'budget_id',
      leased_at = v_now, shared_deaths = 0, awake = true, queued_since = v_now, updated_at = v_now,
      turn_deadline = v_now + make_interval(secs => coalesce(h.turn_deadline_seconds, v_deadline_seconds))
    from items x where x.lease and h.ctid = x.head_tid
  ), announced as (
    insert into state.outbox (project_id, channel_id, kind, status, agent_ids, agent_turn_ids, turn_epochs,
      traceparents, created_at)
    select project_id, channel_id, 'state', 'dispatched', array_agg(agent_id), array_agg(agent_turn_id),
      array_agg(epoch), case when count(traceparent) > 0 then array_agg(traceparent) end, v_now
    from items where lease group by project_id, channel_id, ord / state.messages_max()
  )
  select case when p_brief and count(*) > 1 and count(*) = cardinality(v_items) and bool_and(lease)
      then (select array_agg(row('all_leased', p.project_id, p.agent_id, null, null, p.inbox_id, p.worker_target,
          p.channel_id, null)::state.verdict)
        from (select project_id, worker_target, channel_id, min(agent_id) as agent_id, min(inbox_id) as inbox_id
          from items group by project_id, worker_target, channel_id) p)
      else (select array_agg(row(case when lease then 'leased' else 'enqueued' end, project_id, agent_id, agent_turn_id,
        case when lease then epoch end, inbox_id, case when lease then worker_target end, channel_id,
        null)::state.verdict) from items) end,
    coalesce(array_agg(inbox_id), '{}'), bool_or(idle and not lease), bool_or(boxed), bool_or(set_back)
  into v_done, v_new, v_left, v_boxed, v_set_back from items;
  if cardinality(v_done) = 1 then
    return next v_done[1];
  elsif v_done is not null then
    return query select * from unnest(v_done);
  end if;
  if v_set_back then
    -- The clock was set back: the new rows are older than the last one that was leased.
    update state.agent_state_head h set queued_since = v_now
    from unnest(v_projects, v_agents) as a (project_id, agent_id)
    cross join lateral state.head_ctid(a.project_id, a.agent_id) as at (tid)
    where h.ctid = at.tid and h.queued_since > v_now;
  end if;
  -- Idle but not leased above: an older turn is queued, or the box is in use.
  if v_left then
    return query select * from state.dispatch_next(v_projects, v_agents);
  end if;

  if v_boxed then
    perform state.make_boxes((
      select json_agg(json_build_object('project_id', x.project_id, 'box_id', x.box -> 'box_id', 'kind', 'context',
        'cards', x.box -> 'cards'))
      from unnest(v_items) x where x.box is not null
        -- Usually all are new. The server compares a value with every element of an array variable.
        and (cardinality(v_new) = cardinality(v_items) or x.inbox_id = any (v_new))));
  end if;

  if cardinality(v_new) = cardinality(v_items) then return; end if;

  -- The results of the other items, read in a separate statement (hazard 12).
  return query
  select case
      when h.agent_id is null then 'unknown_agent'
      when coalesce(x.recursion_depth, 0) > v_max_depth then 'recursion_depth_exceeded'
      when r.inbox_id is not null then 'duplicate'
      when exists (select from resource.project_agents a
        where a.project_id = x.project_id and a.agent_id = x.agent_id and a.status = 'retired')
        then 'agent_retired'
      else 'unknown_box' end,
    x.project_id, x.agent_id, r.agent_turn_id, r.turn_epoch, x.inbox_id, null::text, r.channel_id,
    jsonb_build_object('inbox_id', r.inbox_id, 'status', r.status)
  from unnest(v_items) x
  left join lateral state.head(x.project_id, x.agent_id) h on true
  left join lateral (
    (select * from state.agent_inbox i where i.inbox_id = x.inbox_id)
    union all
    (select * from state.agent_inbox i where i.project_id = x.project_id and i.agent_id = x.agent_id
      and i.correlation_id = x.correlation_id
      and i.message_type in ('turn', 'ui_action'))
    limit 1
  ) r on true
  where x.inbox_id <> all (v_new);
end $$;

-- Enqueue for batches that contain turns with budgets: opens the budget of each new turn after its inbox row, in the
-- fixed lock order. A missing purse rolls back the complete call.
-- Budgets: {inbox_id, project_id, agent_turn_id, budget: {budget_id, parent_budget_id?, token_limit?,
-- cost_micros_limit?, wall_ms_limit?}}; the payload of the turn has the id of its budget too.
create or replace function state.enqueue_budgeted(p_turns state.new_turn[], p_budgets json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_verdicts state.verdict[] := array(select v from state.enqueue(p_turns) v);
  v_item json;
begin
  for v_item in
    select json_build_object('budget_id', b.budget_id, 'project_id', x.project_id, 'agent_turn_id', x.agent_turn_id,
      'parent_budget_id', b.parent_budget_id, 'token_limit', b.token_limit, 'cost_micros_limit', b.cost_micros_limit,
      'wall_ms_limit', b.wall_ms_limit)
    from json_to_recordset(p_budgets) as x (inbox_id text, project_id text, agent_turn_id text, budget json)
    cross join lateral json_to_record(x.budget) as b (budget_id text, parent_budget_id text, token_limit bigint,
      cost_micros_limit bigint, wall_ms_limit bigint)
    where exists (select from unnest(v_verdicts) v
      where v.inbox_id = x.inbox_id and v.what in ('enqueued', 'leased'))
    order by b.parent_budget_id
  loop
    if exists (select from state.open_budgets(json_build_array(v_item)) o where o.what = 'unknown_budget') then
      raise exception 'there is no open budget % in this project',
        v_item ->> 'parent_budget_id' using errcode = 'BW003';
    end if;
  end loop;
  return query select * from unnest(v_verdicts);
end $$;
