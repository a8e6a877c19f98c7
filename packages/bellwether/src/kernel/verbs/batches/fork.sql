-- Fork-join: a batch of tasks, each a turn of its own, and one answer when they are done. One transaction creates the
-- complete batch (the tasks with the ids of their turns, their context boxes, the slices of the parent's budget): the
-- one that suspends the parent, or its own for a batch from outside. dispatch_tasks then enqueues the children. Hazard
-- 17: no child exists before its batch, and a batch closes with its parent.
-- Input: {batches: [{batch_id, project_id, agent_id?, agent_turn_id?, turn_epoch?, step_id?, tool_call_id?,
-- channel_id?, traceparent?, budget_id?, fail_fast, deadline_seconds, grace_seconds, task_count, limited}], tasks:
-- [{batch_id, position, target_strategy, target_ref, agent_id, agent_turn_id, inbox_id, output_box_id?,
-- context_box_id?, card_id?, card?, token_limit?, cost_micros_limit?, wall_ms_limit?}], boxes: as for make_boxes,
-- packing: whether one of them packs another}. The caller has locked the parent's head. Repeating a batch changes
-- nothing; one call creates all of its batches or none.
create or replace function state.open_batches(p_fork json)
returns setof text language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_batches json;
  v_tasks json;
  v_boxes json;
  v_packing boolean;
  v_new text[];
  v_project_id text;
  v_one record;
begin
  -- Parsed once: each access to a part of a json value parses all of it.
  select x.batches, x.tasks, x.boxes, x.packing into v_batches, v_tasks, v_boxes, v_packing
  from json_to_record(p_fork) as x (batches json, tasks json, boxes json, packing boolean);
  v_project_id := v_batches -> 0 ->> 'project_id';
  with items as (
    select x.*, h.active_channel_id, h.active_recursion_depth, h.turn_deadline,
      state.trace_of(i.agent_turn_id, i.traceparent) as inherited
    from json_to_recordset(v_batches) as x (batch_id text, project_id text, agent_id text, agent_turn_id text,
      turn_epoch bigint, step_id text, tool_call_id text, channel_id text, traceparent text, fail_fast boolean,
      deadline_seconds double precision, grace_seconds double precision, task_count int)
    left join lateral state.head(x.project_id, x.agent_id) h on true
    left join lateral state.turn_row(x.agent_turn_id) i on true
  ), made as (
    insert into state.batches (batch_id, project_id, parent_agent_id, parent_agent_turn_id, parent_turn_epoch,
      parent_step_id, tool_call_id, channel_id, traceparent, recursion_depth, status, fail_fast, task_count, open_count,
      deadline, next_look_at, created_at)
    select batch_id, project_id, agent_id, agent_turn_id, turn_epoch, step_id, tool_call_id,
      coalesce(active_channel_id, channel_id, 'public'),
      -- In the trace, the parent of the children is the call that forked them (telemetry/span-ids.ts).
      case when tool_call_id is not null and length(inherited) = 55
        then overlay(inherited placing left(replace(batch_id, '-', ''), 16) from 37 for 16)
        else coalesce(inherited, traceparent) end, coalesce(active_recursion_depth + 1, 0), 'open',
          coalesce(fail_fast, false), task_count, task_count,
      -- The parent keeps some time before its own deadline to use the results.
      least(v_now + make_interval(secs => deadline_seconds),
        turn_deadline - least(make_interval(secs => grace_seconds), (turn_deadline - v_now) * 0.1)),
      v_now, v_now
    from items
    on conflict do nothing
    returning *
  ), edges as (
    insert into state.edges (edge_id, project_id, primitive, edge_phase, source_agent_id,
      source_agent_turn_id, source_step_id, correlation_id, trace_id, parent_step_id, recursion_depth, created_at)
    select batch_id, project_id, 'join', 'request', parent_agent_id, parent_agent_turn_id, parent_step_id,
      coalesce(tool_call_id, batch_id), split_part(traceparent, '-', 2), parent_step_id, recursion_depth, v_now
    from made
  )
  select array_agg(batch_id) into v_new from made;
  if v_new is null then return; end if;

  -- A task with only an instruction gets its box here, the way make_boxes would create it. The boxes of other tasks are
  -- in `boxes`.
  with tasks as materialized (
    select * from json_to_recordset(v_tasks) as t (batch_id text, position int, agent_id text, agent_turn_id text,
      inbox_id text, output_box_id text, context_box_id text, target_strategy text, target_ref text, card_id text,
      card jsonb)
  ), instructions as (
    insert into cards.cards (card_id, project_id, type, role, content, created_at)
    select t.card_id, v_project_id, 'task.instruction', 'user', t.card, v_now from tasks t where t.card_id is not null
  ), boxed as (
    insert into cards.box_cards (box_id, card_id) select t.context_box_id, t.card_id from tasks t
    where t.card_id is not null order by t.context_box_id
  ), boxes as (
    insert into cards.boxes (box_id, project_id, kind, created_at) select t.context_box_id, v_project_id, 'context',
      v_now from tasks t where t.card_id is not null
  )
  insert into state.batch_tasks (batch_id, position, agent_id, agent_turn_id, inbox_id, output_box_id, context_box_id,
    target_strategy, target_ref, status, next_try_at)
  select t.batch_id, t.position, t.agent_id, t.agent_turn_id, t.inbox_id, t.output_box_id, t.context_box_id,
    t.target_strategy, t.target_ref,
    -- The process that forked the batch enqueues its tasks at once; after this time the PMO takes over.
    'waiting', v_now + interval '2 seconds'
  from tasks t;

  -- A box that packs a missing box is not created; its task is refused when it is enqueued.
  if v_packing then
    v_boxes := (select json_agg(b) from json_array_elements(v_boxes) b where not exists (
      select from json_array_elements_text(coalesce(b -> 'pack', '[]')) id where not exists (
        select from cards.boxes x where x.box_id = id and x.project_id = b ->> 'project_id' offset 0)));
  end if;
  if json_array_length(v_boxes) > 0 then
    perform state.make_boxes(v_boxes);
  end if;

  update state.agent_state_head h set holds = true
  from json_to_recordset(v_batches) as b (project_id text, agent_id text, agent_turn_id text)
  where h.project_id = b.project_id and h.agent_id = b.agent_id and h.active_agent_turn_id = b.agent_turn_id
    and not h.holds;

  for v_one in
    select b.batch_id, b.project_id, coalesce(g.budget_id, b.budget_id) as budget_id
    from json_to_recordset(v_batches) as b (batch_id text, project_id text, agent_turn_id text, budget_id text,
      limited boolean)
    left join state.budgets g on g.agent_turn_id = b.agent_turn_id and g.ended_at is null
    where b.limited or coalesce(g.budget_id, b.budget_id) is not null
  loop
    perform state.slice_budget(v_one.batch_id, v_one.project_id, v_one.budget_id, v_tasks);
  end loop;
  return query select unnest(v_new);
end $$;

-- The budgets of the tasks, with the ids of their turns: slices of the parent's budget, or separate budgets if only the
-- task has a limit.
create or replace function state.slice_budget(p_batch_id text, p_project_id text, p_budget_id text,
  p_tasks json) returns void language plpgsql as $$
#variable_conflict use_column
declare
  v_slices json;
begin
  v_slices := (
    select json_agg(json_build_object('budget_id', t.agent_turn_id, 'project_id', p_project_id,
      'agent_turn_id', t.agent_turn_id, 'parent_budget_id', p_budget_id, 'token_limit', t.token_limit,
      'cost_micros_limit', t.cost_micros_limit, 'wall_ms_limit', t.wall_ms_limit) order by t.position)
    from json_to_recordset(p_tasks) as t (batch_id text, position int, agent_turn_id text, token_limit bigint,
      cost_micros_limit bigint, wall_ms_limit bigint)
    where t.batch_id = p_batch_id and (p_budget_id is not null
      or num_nonnulls(t.token_limit, t.cost_micros_limit, t.wall_ms_limit) > 0));
  if v_slices is null then return; end if;
  if exists (select from state.open_budgets(v_slices) o where o.what = 'unknown_budget') then
    raise exception 'there is no open budget % in this project', p_budget_id using errcode = 'BW003';
  end if;
  update state.batch_tasks k set budget_id = s.budget_id
  from json_to_recordset(v_slices) as s (budget_id text, agent_turn_id text)
  where k.batch_id = p_batch_id and k.agent_turn_id = s.agent_turn_id;
end $$;

-- A batch from outside. Returns 'forked' or 'already'.
create or replace function state.fork(p_fork json) returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_new text[] := array(select state.open_batches(p_fork));
begin
  return query select case when b.batch_id = any (v_new) then 'forked' else 'already' end, b.project_id, null::text,
    null::text, null::bigint, null::text, null::text, null::text, to_jsonb(b.batch_id)
  from json_to_recordset(p_fork -> 'batches') as x (batch_id text) join state.batches b on b.batch_id = x.batch_id;
end $$;
