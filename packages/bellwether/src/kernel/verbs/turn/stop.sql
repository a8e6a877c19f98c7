-- Ends turns early: cancels a queued turn (T3.6) or stops an active one. The verb decides which under the head's lock,
-- so that a lease in between cannot race with it (hazard 9).

-- The caller may already have locked the heads. One card id per turn. Unknown and ended turns are skipped.
create or replace function state.stop_turns(p_turns text[], p_card_ids text[], p_outcome text, p_error text,
  p_force_reason text)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_endings state.ending[];
begin
  perform from state.agent_state_head h
  join (select distinct i.project_id, i.agent_id from unnest(p_turns) t
    join state.agent_inbox i on i.agent_turn_id = t and i.message_type in ('turn', 'ui_action')) a
    on h.project_id = a.project_id and h.agent_id = a.agent_id
  order by h.project_id, h.agent_id for no key update of h;

  v_endings := array(
    select distinct on (i.agent_turn_id) row(i.project_id, i.agent_id, i.agent_turn_id,
      h.active_agent_turn_id = i.agent_turn_id is true, p_outcome, p_error, t.card_id,
      jsonb_build_object('text', case when i.status = 'queued' then 'Cancelled before it started.'
        else 'Stopped before it was done.' end,
        'status', p_outcome, 'error', p_error), p_force_reason,
      h.active_agent_turn_id = i.agent_turn_id and h.status = 'suspended',
      -- Only a started turn can have batches; a queued one may have a budget.
      case when h.active_agent_turn_id = i.agent_turn_id then h.holds else i.payload ? 'budget_id' end)::state.ending
    from unnest(p_turns, p_card_ids) as t (turn, card_id)
    join state.agent_inbox i on i.agent_turn_id = t.turn and i.message_type in ('turn', 'ui_action')
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where i.ended_at is null and (i.status = 'queued' or h.active_agent_turn_id = i.agent_turn_id)
    order by i.agent_turn_id);
  if v_endings <> '{}' then
    return query select * from state.finish_turn_idle(v_endings);
  end if;
end $$;

-- Each stop is itself an inbox row with its edge (T3.1d). Items: {project_id, agent_turn_id, inbox_id, card_id,
-- reason?}.
create or replace function state.stop(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_turns text[];
  v_ended text[];
begin
  v_turns := array(
    select i.agent_turn_id from json_to_recordset(p_items) as x (project_id text, agent_turn_id text)
    join state.agent_inbox i on i.agent_turn_id = x.agent_turn_id and i.project_id = x.project_id
      and i.message_type in ('turn', 'ui_action')
    where i.ended_at is null);
  if v_turns <> '{}' then
    perform from state.agent_state_head h
    join (select distinct i.project_id, i.agent_id from unnest(v_turns) t
      join state.agent_inbox i on i.agent_turn_id = t and i.message_type in ('turn', 'ui_action')) a
      on h.project_id = a.project_id and h.agent_id = a.agent_id
    order by h.project_id, h.agent_id for no key update of h;
    v_now := state.now();
    with written as (
      insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
        correlation_id, agent_turn_id, turn_epoch, traceparent, payload, created_at, processed_at, archived_at)
      select x.inbox_id, i.project_id, i.agent_id, i.worker_target, i.channel_id, 'stop', 'consumed', i.agent_turn_id,
        i.agent_turn_id, i.turn_epoch, i.traceparent, jsonb_build_object('reason', x.reason), v_now, v_now, v_now
      from json_to_recordset(p_items) as x (agent_turn_id text, inbox_id text, reason text)
      join state.agent_inbox i on i.agent_turn_id = x.agent_turn_id and i.message_type in ('turn', 'ui_action')
        and i.ended_at is null
      -- A refused row was never its agent's turn: there is nothing to stop.
      join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
        and (i.status = 'queued' or h.active_agent_turn_id = i.agent_turn_id)
      on conflict do nothing
      returning inbox_id, project_id, agent_id, agent_turn_id, traceparent
    ), edges as (
      insert into state.execution_edges (edge_id, project_id, primitive, edge_phase, target_agent_id,
        target_agent_turn_id, correlation_id, trace_id, created_at)
      select inbox_id, project_id, 'report', 'response', agent_id, agent_turn_id, agent_turn_id,
        split_part(traceparent, '-', 2), v_now from written
    )
    select array_agg(agent_turn_id) into v_ended from written;
    return query select * from state.stop_turns(
      array(select x.agent_turn_id from json_to_recordset(p_items) as x (agent_turn_id text)
        where x.agent_turn_id = any (v_ended)),
      array(select x.card_id from json_to_recordset(p_items) as x (agent_turn_id text, card_id text)
        where x.agent_turn_id = any (v_ended)),
      'canceled', 'stopped', null);
  end if;

  return query
  select case when i.inbox_id is null then 'unknown_turn' else 'already' end, x.project_id, i.agent_id, x.agent_turn_id,
    i.turn_epoch, i.inbox_id, null::text, null::text, jsonb_build_object('outcome', i.outcome)
  from json_to_recordset(p_items) as x (project_id text, agent_turn_id text)
  left join state.agent_inbox i on i.agent_turn_id = x.agent_turn_id and i.project_id = x.project_id
    and i.message_type in ('turn', 'ui_action')
  where not coalesce(x.agent_turn_id = any (v_ended), false);
end $$;
