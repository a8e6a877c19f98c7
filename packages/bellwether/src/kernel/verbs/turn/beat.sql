-- A worker reports that its turns are alive: refreshes head and inbox row together (hazard 2). A fence that is missing
-- from the answer is lost. A change of activity is announced and has no other effect (T2.3).
-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, activity?, current_tool?}.
create or replace function state.beat(p_items json, p_worker text default null)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  perform state.lock_heads(array_agg(x.project_id), array_agg(x.agent_id))
  from json_to_recordset(p_items) as x (project_id text, agent_id text);
  v_now := state.now();

  return query
  with live as materialized (
    select x.*, h.active_channel_id, i.inbox_id, state.trace_of(i.agent_turn_id, i.traceparent) as traceparent,
      x.activity is not null and (h.activity, h.current_tool) is distinct from (x.activity, x.current_tool) as changed
    from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
      activity text, current_tool text)
    cross join lateral state.head(x.project_id, x.agent_id) h
    left join lateral state.turn_row(x.agent_turn_id) i on true
    where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch and h.status = 'running'
  ), beaten as (
    update state.agent_state_head h set updated_at = v_now,
      activity = coalesce(l.activity, h.activity), current_tool = case when l.activity is null then h.current_tool
        else l.current_tool end
    from live l cross join lateral state.head_ctid(l.project_id, l.agent_id) as at (tid) where h.ctid = at.tid
  ), refreshed as (
    update state.agent_inbox i set processed_at = v_now from live l where i.inbox_id = l.inbox_id
  ), announced as (
    insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
    select project_id, 'bw.v1.' || project_id || '.' || active_channel_id || '.evt.agent.' || agent_id || '.state',
      'state', jsonb_strip_nulls(jsonb_build_object('agent_turn_id', agent_turn_id, 'agent_id', agent_id, 'status',
        'running', 'turn_epoch', turn_epoch, 'traceparent', traceparent, 'metadata',
        jsonb_build_object('activity', activity, 'current_tool', current_tool, 'waiting_tool_count', 0))),
      agent_turn_id, v_now
    from live where changed
  )
  select 'alive', project_id, agent_id, agent_turn_id, turn_epoch, inbox_id, null::text, null::text, null::jsonb
  from live;

  update state.workers w set seen_at = v_now where w.worker_id = p_worker;
end $$;
