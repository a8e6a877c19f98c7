-- Ends turns early: cancels a queued turn (T3.6) or stops an active one. The verb decides which under the head's lock,
-- so that a lease in between cannot race with it (hazard 9).

-- The caller may already have locked the heads. One card id, one requester and one reason per turn. Unknown and ended
-- turns are skipped.
create or replace function state.stop_turns(p_turns text[], p_card_ids text[], p_stopped_by text[], p_reasons text[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_endings state.ending[];
begin
  perform state.lock_heads(array_agg(i.project_id), array_agg(i.agent_id))
  from unnest(p_turns) t cross join lateral state.turn_row(t) i;

  v_endings := array(
    select distinct on (i.agent_turn_id) row(i.project_id, i.agent_id, i.agent_turn_id,
      h.active_agent_turn_id = i.agent_turn_id is true, 'canceled', 'stopped', t.card_id, null, null,
      h.active_agent_turn_id = i.agent_turn_id and h.status = 'suspended',
      -- Only a started turn can have batches; a queued one may have a budget.
      case when h.active_agent_turn_id = i.agent_turn_id then h.holds else i.payload ? 'budget_id' end,
      coalesce(t.stopped_by, 'an unnamed caller'), coalesce(t.reason, 'no reason was given'), null)::state.ending
    from unnest(p_turns, p_card_ids, p_stopped_by, p_reasons) as t (turn, card_id, stopped_by, reason)
    join state.agent_inbox i on i.agent_turn_id = t.turn and i.message_type in ('turn', 'ui_action')
    cross join lateral state.head(i.project_id, i.agent_id) h
    where i.ended_at is null and (i.status = 'queued' or h.active_agent_turn_id = i.agent_turn_id)
    order by i.agent_turn_id);
  if v_endings <> '{}' then
    return query select * from state.finish_turn_idle(v_endings);
  end if;
end $$;

-- Each stop is itself an inbox row with its edge (T3.1d). Items: {project_id, agent_turn_id, inbox_id, card_id,
-- stopped_by?, reason?}.
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
    perform state.lock_heads(array_agg(i.project_id), array_agg(i.agent_id))
    from unnest(v_turns) t cross join lateral state.turn_row(t) i;
    v_now := state.now();
    with written as (
      insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
        correlation_id, agent_turn_id, turn_epoch, traceparent, payload, created_at, processed_at, archived_at)
      select x.inbox_id, i.project_id, i.agent_id, i.worker_target, i.channel_id, 'stop', 'consumed', i.agent_turn_id,
        i.agent_turn_id, i.turn_epoch, i.traceparent, jsonb_strip_nulls(jsonb_build_object('reason', x.reason,
        'stopped_by', x.stopped_by)), v_now, v_now, v_now
      from json_to_recordset(p_items) as x (agent_turn_id text, inbox_id text, stopped_by text, reason text)
      join state.agent_inbox i on i.agent_turn_id = x.agent_turn_id and i.message_type in ('turn', 'ui_action')
        and i.ended_at is null
      -- A refused row was never its agent's turn: there is nothing to stop.
      cross join lateral state.head(i.project_id, i.agent_id) h
      where (i.status = 'queued' or h.active_agent_turn_id = i.agent_turn_id)
      on conflict do nothing
      returning inbox_id, project_id, agent_id, agent_turn_id, traceparent
    ), edges as (
      insert into state.edges (edge_id, project_id, primitive, edge_phase, target_agent_id,
        target_agent_turn_id, correlation_id, trace_id, created_at)
      select inbox_id, project_id, 'report', 'response', agent_id, agent_turn_id, agent_turn_id,
        split_part(state.trace_of(agent_turn_id, traceparent), '-', 2), v_now from written
    )
    select array_agg(agent_turn_id) into v_ended from written;
    return query select s.* from (
      select array_agg(x.agent_turn_id) as turns, array_agg(x.card_id) as card_ids,
        array_agg(x.stopped_by) as stopped_by, array_agg(x.reason) as reasons
      from json_to_recordset(p_items) as x (agent_turn_id text, card_id text, stopped_by text, reason text)
      where x.agent_turn_id = any (v_ended)) x
    cross join lateral state.stop_turns(x.turns, x.card_ids, x.stopped_by, x.reasons) s;
  end if;

  return query
  select case when i.inbox_id is null then 'unknown_turn' else 'already' end, x.project_id, i.agent_id, x.agent_turn_id,
    i.turn_epoch, i.inbox_id, null::text, null::text, jsonb_build_object('outcome', i.outcome)
  from json_to_recordset(p_items) as x (project_id text, agent_turn_id text)
  left join state.agent_inbox i on i.agent_turn_id = x.agent_turn_id and i.project_id = x.project_id
    and i.message_type in ('turn', 'ui_action')
  where not coalesce(x.agent_turn_id = any (v_ended), false);
end $$;
