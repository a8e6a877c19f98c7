-- A turn without a trace of its caller has a trace that is derived from its id. It is not stored any more in the inbox,
-- in heads and in events: null means this trace (decision 0015).
create function state.trace_of(p_agent_turn_id text, p_traceparent text) returns text language sql immutable as $$
  select case when p_traceparent is not null then p_traceparent
    when p_agent_turn_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
      then '00-' || replace(p_agent_turn_id, '-', '') || '-' || right(replace(p_agent_turn_id, '-', ''), 16) || '-01'
    end
$$;
comment on column state.agent_inbox.traceparent is
  'The trace context of the caller. Null: the own trace of the turn, state.trace_of(agent_turn_id, traceparent).';
comment on column state.agent_state_head.trace_id is
  'The trace id of the caller. Null: the own trace of the active turn.';

create or replace view state.turns as
select i.agent_turn_id, i.inbox_id, i.project_id, i.agent_id, i.channel_id, i.message_type, i.correlation_id,
  case when i.ended_at is not null then i.outcome
       when h.status is not null then h.status
       else i.status end as status,
  case when h.status is not null then h.turn_epoch else i.turn_epoch end as turn_epoch,
  i.deaths, i.claimed_by, i.recursion_depth, state.trace_of(i.agent_turn_id, i.traceparent) as traceparent,
  i.source_agent_id, i.source_step_id, h.turn_deadline, h.resume_deadline, h.waiting_tool_count, h.activity,
  h.current_tool, i.created_at, i.started_at, i.ended_at, i.outcome, i.deliverable_card_id, i.error
from state.agent_inbox i
left join lateral (
  select h.active_agent_turn_id, h.status, h.turn_epoch, h.turn_deadline, h.resume_deadline, h.waiting_tool_count,
    h.activity, h.current_tool
  from state.agent_state_head h
  where i.ended_at is null and h.project_id = i.project_id and h.agent_id = i.agent_id
  order by h.epoch_group desc limit 1) h on h.active_agent_turn_id = i.agent_turn_id
where i.message_type in ('turn', 'ui_action');

-- Turns and deliveries arrive as columns.
drop function if exists state.deliver(json);
drop type if exists state.delivery;
drop function if exists state.enqueue_budgeted(json);
-- Its result changes.
drop function if exists state.claim_position(text);
