-- Leases the oldest queued turn of each idle agent: idle → dispatched, epoch + 1, row queued → pending (T3.1b).
-- The caller has locked the heads in an earlier statement; this one therefore sees every row committed before the lock.
-- A head whose output box another active turn holds stays idle: the sweep for queued rows comes back to it (T5.3).
create or replace function state.dispatch_next(p_projects text[], p_agents text[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_deadline_seconds double precision;
begin
  select l.turn_deadline_seconds into v_deadline_seconds from state.limits l;

  return query
  with chosen as materialized (
    select distinct on (coalesce(q.payload ->> 'output_box_id', h.output_box_id, h.project_id || '/' || h.agent_id))
      h.project_id, h.agent_id, h.turn_epoch + 1 as epoch, h.worker_target, h.turn_deadline_seconds,
      q.inbox_id, q.agent_turn_id, coalesce(q.channel_id, 'public') as channel_id, q.recursion_depth, q.parent_step_id,
      q.traceparent, q.payload ->> 'context_box_id' as context_box_id,
      coalesce(q.payload ->> 'output_box_id', h.output_box_id) as output_box_id
    from unnest(p_projects, p_agents) as a (project_id, agent_id)
    join state.agent_state_head h on h.project_id = a.project_id and h.agent_id = a.agent_id
    cross join lateral (
      select i.inbox_id, i.agent_turn_id, i.channel_id, i.recursion_depth, i.parent_step_id, i.traceparent, i.payload
      from state.agent_inbox i
      where i.project_id = h.project_id and i.agent_id = h.agent_id and i.status = 'queued' and i.agent_turn_id is not null
      order by i.created_at, i.inbox_id limit 1
    ) q
    where h.status = 'idle' and not exists (
      select from state.agent_state_head o
      where o.output_box_id = coalesce(q.payload ->> 'output_box_id', h.output_box_id) and o.active_agent_turn_id is not null)
    order by coalesce(q.payload ->> 'output_box_id', h.output_box_id, h.project_id || '/' || h.agent_id)
  ), promoted as (
    -- The head's lock covers its queue: what was chosen is still queued.
    update state.agent_inbox i set status = 'pending', turn_epoch = c.epoch
    from chosen c where i.inbox_id = c.inbox_id
  )
  update state.agent_state_head h set
    status = 'dispatched', turn_epoch = c.epoch, active_agent_turn_id = c.agent_turn_id, active_channel_id = c.channel_id,
    active_recursion_depth = c.recursion_depth, parent_step_id = c.parent_step_id, trace_id = split_part(c.traceparent, '-', 2),
    context_box_id = c.context_box_id, output_box_id = c.output_box_id, leased_at = v_now, updated_at = v_now,
    turn_deadline = v_now + make_interval(secs => coalesce(c.turn_deadline_seconds, v_deadline_seconds))
  from chosen c
  where h.project_id = c.project_id and h.agent_id = c.agent_id and h.status = 'idle'
  returning 'leased', h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, c.inbox_id, h.worker_target, h.active_channel_id, null::jsonb;
end $$;
