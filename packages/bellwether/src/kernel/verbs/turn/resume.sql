-- suspended → running, when every wait is settled: ledger and waits become 'applied', and the worker holds the turn
-- (T3.4b). Returns 'stale' if another worker resumed it first, the turn is over, or the caller has read the results of
-- another step.
-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, step_id?}.
create or replace function state.resume(p_items json, p_worker text)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_live text[];
begin
  perform state.lock_heads(array_agg(x.project_id), array_agg(x.agent_id))
  from json_to_recordset(p_items) as x (project_id text, agent_id text);
  v_now := state.now();

  v_live := array(
    select x.agent_turn_id from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text,
      turn_epoch bigint, step_id text)
    cross join lateral state.head(x.project_id, x.agent_id) h
    where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch and h.status = 'suspended'
      and h.waiting_tool_count = 0
      and (x.step_id is null or exists (
        select from state.turn_resume_ledger l join state.turn_waiting_tools w on w.project_id = l.project_id
          and w.tool_call_id = l.tool_call_id
        where l.agent_turn_id = x.agent_turn_id and l.status in ('pending', 'processing') and w.step_id = x.step_id)));

  update state.agent_inbox i set claimed_by = p_worker, processed_at = v_now
  from unnest(v_live) t where i.agent_turn_id = t and i.message_type in ('turn', 'ui_action');
  update state.turn_waiting_tools w set wait_status = 'applied' from unnest(v_live) t
  where w.agent_turn_id = t and w.wait_status = 'received';
  update state.turn_resume_ledger l set status = 'applied', lease_expires_at = null
  from unnest(v_live) t where l.agent_turn_id = t and l.status in ('pending', 'processing');

  return query
  with resumed as (
    update state.agent_state_head h set status = 'running', resume_deadline = null, resume_seconds = null,
      activity = 'thinking', current_tool = null, updated_at = v_now
    from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text)
    cross join lateral state.head_ctid(x.project_id, x.agent_id) as at (tid)
    where h.ctid = at.tid and x.agent_turn_id = any (v_live)
    returning h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, h.active_channel_id, h.trace_id
  ), announced as (
    insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
    select r.project_id, 'bw.v1.' || r.project_id || '.' || r.active_channel_id || '.evt.agent.' || r.agent_id
      || '.state', 'state',
      jsonb_strip_nulls(jsonb_build_object('agent_turn_id', r.active_agent_turn_id, 'agent_id', r.agent_id, 'status',
        'running', 'turn_epoch', r.turn_epoch, 'traceparent', state.trace_of(i.agent_turn_id, i.traceparent),
        'metadata', jsonb_build_object('activity', 'thinking', 'waiting_tool_count', 0))), r.active_agent_turn_id, v_now
    from resumed r left join lateral state.turn_row(r.active_agent_turn_id) i on true
  )
  select 'resumed', project_id, agent_id, active_agent_turn_id, turn_epoch, null::text, null::text, null::text,
    null::jsonb from resumed;

  return query
  select 'stale', x.project_id, x.agent_id, x.agent_turn_id, x.turn_epoch, null::text, null::text, null::text,
    null::jsonb
  from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint)
  -- Another epoch of a resumed turn is stale too.
  where not exists (select from state.head(x.project_id, x.agent_id) h
    where h.active_agent_turn_id = any (v_live) and h.active_agent_turn_id = x.agent_turn_id
    and h.turn_epoch = x.turn_epoch);
end $$;
