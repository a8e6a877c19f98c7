-- Sends a command again until its deadline if no host has started the call, or if the host of a repeatable call has
-- stopped beating (hazard 11).
create or replace function state.resend_commands(p_target text, p_older_than_seconds double precision, p_limit int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  return query
  with unstarted as materialized (
    select w.project_id, w.tool_call_id, w.agent_id, w.agent_turn_id, w.turn_epoch, w.step_id, w.tool_name,
      w.after_execution, w.tool_call_card_id, h.active_channel_id,
      state.trace_of(i.agent_turn_id, i.traceparent) as traceparent,
      coalesce('cmd.sys.pmo.internal.' || w.pmo_tool, t.target_subject, 'cmd.tool.' || w.tool_name || '.call') as target
    from state.agent_state_head h
    join state.turn_waiting_tools w on w.agent_turn_id = h.active_agent_turn_id and w.turn_epoch = h.turn_epoch
    left join lateral state.turn_row(h.active_agent_turn_id) i on true
    left join resource.tools t on t.project_id = w.project_id and t.tool_name = w.tool_name
    where h.awake and h.active_agent_turn_id is not null and h.status = 'suspended' and h.worker_target = p_target
      and h.resume_deadline > v_now
      and w.wait_status = 'waiting' and w.approval is distinct from 'waiting'
      and w.sent_at < v_now - make_interval(secs => p_older_than_seconds)
      -- 30 seconds: longer than a host needs to recover from a database restart.
      and (w.started_by is null or w.idempotent
        and w.host_beat_at < v_now - greatest(interval '30 seconds', make_interval(secs => p_older_than_seconds)))
    limit p_limit for update of w skip locked
  ), sent as (
    insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
    select project_id, 'bw.v1.' || project_id || '.' || active_channel_id || '.' || target, 'command',
      jsonb_strip_nulls(jsonb_build_object('agent_id', agent_id, 'agent_turn_id', agent_turn_id,
        'turn_epoch', turn_epoch, 'step_id', step_id, 'tool_call_id', tool_call_id, 'tool_name', tool_name,
        'after_execution', after_execution, 'tool_call_card_id', tool_call_card_id, 'traceparent', traceparent)),
        agent_turn_id, v_now
    from unstarted
  )
  update state.turn_waiting_tools w set sent_at = v_now from unstarted u
  where w.project_id = u.project_id and w.tool_call_id = u.tool_call_id
  returning 'resent', w.project_id, w.agent_id, w.agent_turn_id, w.turn_epoch, null::text, null::text, null::text,
    to_jsonb(w.tool_call_id);
end $$;
