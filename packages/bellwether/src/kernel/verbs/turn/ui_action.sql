-- A person's action on an agent: the lease and the pending inbox row are one step (T3.1c). The worker that claims the
-- row calls the tool. Returns 'busy' for a busy agent, 'rejected' for an unknown agent or tool, 'duplicate' for a
-- repeated action, and 'conflict' if another action used its id; none of these writes anything (T3.1e).
-- Items: {inbox_id, agent_turn_id, project_id, agent_id, action_id, channel_id?, traceparent?, payload: {tool_name,
-- args, ...}, built_in: whether every project has the tool}.
create or replace function state.ui_action(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_leases state.leasing[];
  v_done state.verdict[];
begin
  perform from state.agent_state_head h
  join json_to_recordset(p_items) as x (project_id text, agent_id text) on h.project_id = x.project_id
    and h.agent_id = x.agent_id
  order by h.project_id, h.agent_id for no key update of h;
  v_now := state.now();

  with items as materialized (
    select distinct on (x.project_id, x.agent_id) x.*, h.ctid as head_tid, h.turn_epoch + 1 as epoch, h.worker_target,
      coalesce(x.channel_id, 'public') as channel
    from rows from (json_to_recordset(p_items) as (inbox_id text, agent_turn_id text, project_id text, agent_id text,
      action_id text, channel_id text, traceparent text, payload jsonb, built_in boolean)) with ordinality
      as x (inbox_id, agent_turn_id, project_id, agent_id, action_id, channel_id, traceparent, payload, built_in, ord)
    join state.agent_state_head h on h.project_id = x.project_id and h.agent_id = x.agent_id
    where h.status = 'idle'
      and (x.built_in or exists (select from resource.tools t
        where t.project_id = x.project_id and t.tool_name = x.payload ->> 'tool_name' offset 0))
      and not exists (select from state.agent_inbox i where i.inbox_id = x.inbox_id offset 0)
      and not exists (select from state.agent_inbox i where i.project_id = x.project_id and i.agent_id = x.agent_id
        and i.correlation_id = x.action_id and i.message_type in ('turn', 'ui_action') offset 0)
      and not exists (select from resource.project_agents a
        where a.project_id = x.project_id and a.agent_id = x.agent_id and a.status = 'retired' offset 0)
      and case when h.output_box_id is not distinct from h.home_box_id
          then not exists (select from state.borrowed_boxes o where o.box_id = h.output_box_id offset 0)
          else state.may_borrow_box(h.output_box_id) end
    order by x.project_id, x.agent_id, x.ord
  ), put as (
    insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
      correlation_id, agent_turn_id, turn_epoch, traceparent, payload, created_at, leased_at)
    select inbox_id, project_id, agent_id, worker_target, channel, 'ui_action', 'pending', action_id, agent_turn_id,
      epoch, traceparent, payload, v_now, v_now
    from items
  )
  select coalesce(array_agg(row('accepted', project_id, agent_id, agent_turn_id, epoch, inbox_id, worker_target,
    channel, null)::state.verdict), '{}'), array_agg(row(project_id, agent_id, agent_turn_id, inbox_id, channel, 0,
    null, traceparent, payload ->> 'context_box_id', null, action_id, false, null, head_tid)::state.leasing)
    into v_done, v_leases from items;
  perform state.lease(v_leases);
  return query select * from unnest(v_done);

  return query
  select case when a.reason = 'unknown_agent' then 'rejected'
      when r.inbox_id is not null then case when r.message_type = 'ui_action'
        and r.payload -> 'tool_name' = x.payload -> 'tool_name' and r.payload -> 'args' = x.payload -> 'args'
        then 'duplicate' else 'conflict' end
      when a.reason is not null then 'rejected' else 'busy' end,
    x.project_id, x.agent_id, r.agent_turn_id, r.turn_epoch, x.inbox_id, null::text, null::text,
    case when r.inbox_id is not null then jsonb_build_object('inbox_id', r.inbox_id)
      when a.reason is not null then jsonb_build_object('reason', a.reason) end
  from json_to_recordset(p_items) as x (inbox_id text, project_id text, agent_id text, action_id text, payload jsonb,
    built_in boolean)
  cross join lateral (select case
    when not exists (select from state.agent_state_head h where h.project_id = x.project_id
      and h.agent_id = x.agent_id) then 'unknown_agent'
    when exists (select from resource.project_agents g where g.project_id = x.project_id
      and g.agent_id = x.agent_id and g.status = 'retired') then 'agent_retired'
    when not x.built_in and not exists (select from resource.tools t where t.project_id = x.project_id
      and t.tool_name = x.payload ->> 'tool_name') then 'unknown_tool' end as reason) a
  left join lateral (
    select i.* from state.agent_inbox i where i.project_id = x.project_id and i.agent_id = x.agent_id
      and i.correlation_id = x.action_id
      and i.message_type in ('turn', 'ui_action') limit 1) r on true
  where x.inbox_id not in (select d.inbox_id from unnest(v_done) d);
end $$;
