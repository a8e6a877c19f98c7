-- Writes the receipt for a tool call into the inbox of the turn that waits for it: card, row and edge in one
-- transaction, under the head's lock (T3.4a, T3.1d). A receipt that no turn waits for (repeated, late, after a timeout,
-- of an ended turn) writes nothing and returns 'ignored' (T8.2).
-- Items: {project_id, tool_call_id, message_type, status, result?, error?, after_execution?, agent_turn_id?,
-- turn_epoch?, decided?, inbox_id, card_id}.
create or replace function state.report(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_done state.verdict[];
  v_projects text[];
  v_calls text[];
  v_inbox_ids text[];
begin
  -- Each access to the items parses all of them, and the result of a batch has a few hundred kilobytes.
  select array_agg(x.project_id), array_agg(x.tool_call_id), array_agg(x.inbox_id) into v_projects, v_calls, v_inbox_ids
  from json_to_recordset(p_items) as x (project_id text, tool_call_id text, inbox_id text);
  perform state.lock_heads(array_agg(w.project_id), array_agg(w.agent_id))
  from unnest(v_projects, v_calls) as x (project_id, tool_call_id)
  join state.turn_waiting_tools w on w.project_id = x.project_id and w.tool_call_id = x.tool_call_id;
  v_now := state.now();

  with items as materialized (
    select distinct on (x.project_id, x.tool_call_id) x.inbox_id, x.card_id, x.message_type, x.status, x.result,
      x.error, w.project_id, w.agent_id, w.agent_turn_id, w.turn_epoch, w.tool_call_id, w.tool_name, w.step_id,
      h.worker_target, h.active_channel_id, h.active_recursion_depth,
      state.trace_of(i.agent_turn_id, i.traceparent) as traceparent,
      -- after_execution comes from the result, else from the report, else from the tool's declaration; other values are
      -- ignored (T3.3d).
      case when x.result -> '__cg_control' ->> 'after_execution' in ('suspend', 'terminate')
        then x.result -> '__cg_control' ->> 'after_execution'
        when x.after_execution in ('suspend', 'terminate') then x.after_execution
        else w.after_execution end as after_execution
    from json_to_recordset(p_items) as x (inbox_id text, card_id text, project_id text, tool_call_id text,
      message_type text, status text, result jsonb, error jsonb, after_execution text, agent_turn_id text,
      turn_epoch bigint, decided boolean)
    join state.turn_waiting_tools w on w.project_id = x.project_id and w.tool_call_id = x.tool_call_id
    cross join lateral state.head(w.project_id, w.agent_id) h
    left join lateral state.turn_row(w.agent_turn_id) i on true
    where h.status = 'suspended' and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch
      and w.wait_status = 'waiting'
      -- Before a person has decided, only the decision or a timeout answers the call.
      and (w.approval is distinct from 'waiting' or x.decided or x.message_type = 'timeout')
      and (x.agent_turn_id is null or x.agent_turn_id = w.agent_turn_id)
      and (x.turn_epoch is null or x.turn_epoch = w.turn_epoch)
      and not exists (select from state.agent_inbox r
        where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
        and r.message_type in ('tool_result', 'timeout') offset 0)
    order by x.project_id, x.tool_call_id, x.inbox_id
  ), made as (
    insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
    select card_id, project_id, 'tool.result', 'tool',
      jsonb_strip_nulls(jsonb_build_object('tool_call_id', tool_call_id, 'tool_name', tool_name, 'status', status,
      'error', error))
        || jsonb_build_object('result', result),
      jsonb_build_object('agent_turn_id', agent_turn_id, 'step_id', step_id), v_now from items
  ), edges as (
    insert into state.edges (edge_id, project_id, primitive, edge_phase, target_agent_id,
      target_agent_turn_id, correlation_id, trace_id, parent_step_id, recursion_depth, created_at)
    select inbox_id, project_id, 'report', 'response', agent_id, agent_turn_id, tool_call_id,
      split_part(traceparent, '-', 2), step_id, active_recursion_depth, v_now from items
  ), put as (
    insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      correlation_id, agent_turn_id, turn_epoch, recursion_depth, traceparent, parent_step_id, payload, created_at)
    select inbox_id, project_id, agent_id, worker_target, active_channel_id, message_type, 'pending', tool_call_id,
      agent_turn_id, turn_epoch, active_recursion_depth, traceparent, step_id,
      jsonb_strip_nulls(jsonb_build_object('agent_turn_id', agent_turn_id, 'agent_id', agent_id,
        'turn_epoch', turn_epoch, 'tool_call_id', tool_call_id, 'status', status, 'after_execution', after_execution,
        'tool_result_card_id', card_id,
          -- Only the code: the card has the rest, and a payload holds pointers.
          'error', case when error is not null then jsonb_build_object('code', error -> 'code') end)), v_now
    from items
    returning *
  )
  select coalesce(array_agg(row('reported', project_id, agent_id, agent_turn_id, turn_epoch, inbox_id, worker_target,
    channel_id, to_jsonb(correlation_id))::state.verdict), '{}') into v_done from put;
  return query select * from unnest(v_done);

  return query
  select case when w.tool_call_id is null then 'unknown_tool_call' else 'ignored' end, x.project_id, w.agent_id,
    w.agent_turn_id, w.turn_epoch, x.inbox_id, null::text, null::text, to_jsonb(x.tool_call_id)
  from unnest(v_projects, v_calls, v_inbox_ids) as x (project_id, tool_call_id, inbox_id)
  left join state.turn_waiting_tools w on w.project_id = x.project_id and w.tool_call_id = x.tool_call_id
  where x.inbox_id not in (select d.inbox_id from unnest(v_done) d);
end $$;
