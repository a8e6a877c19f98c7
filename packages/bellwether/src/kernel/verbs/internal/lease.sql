-- The move idle → dispatched of a turn that was queued, and of an action: epoch + 1, the turn, its channel, trace and
-- boxes, and its absolute deadline (T3.2c, W2.9), announced by a state event (T2.5). The caller has locked the heads,
-- found them idle, has not written them since, and writes the inbox row with the same epoch. Enqueue makes the same
-- move in its own statement.
create or replace function state.lease(p_leases state.leasing[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  return query
  with leased as (
  update state.agent_state_head h set
    status = 'dispatched', turn_epoch = h.turn_epoch + 1, active_agent_turn_id = l.agent_turn_id,
      active_channel_id = coalesce(l.channel_id, 'public'),
    active_recursion_depth = l.recursion_depth, parent_step_id = l.parent_step_id,
      trace_id = split_part(l.traceparent, '-', 2),
    context_box_id = l.context_box_id, output_box_id = coalesce(l.output_box_id, h.output_box_id),
    expecting_correlation_id = l.expecting_correlation_id, holds = coalesce(l.holds, false), leased_at = v_now,
    shared_deaths = 0, awake = true, queued_since = coalesce(l.queued_since, h.queued_since),
    updated_at = v_now, turn_deadline = v_now + make_interval(secs => coalesce(h.turn_deadline_seconds,
    (select m.turn_deadline_seconds from state.limits m)))
  from unnest(p_leases) l where h.ctid = l.head_tid and h.status = 'idle'
  returning h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, l.inbox_id, h.worker_target,
    h.active_channel_id, l.traceparent
  ), announced as (
    insert into state.outbox (project_id, channel_id, agent_id, kind, status, agent_turn_id, turn_epoch, traceparent,
      created_at)
    select project_id, active_channel_id, agent_id, 'state', 'dispatched', active_agent_turn_id, turn_epoch,
      traceparent, v_now
    from leased
  )
  select 'leased', project_id, agent_id, active_agent_turn_id, turn_epoch, inbox_id, worker_target, active_channel_id,
    null::jsonb from leased;
end $$;
