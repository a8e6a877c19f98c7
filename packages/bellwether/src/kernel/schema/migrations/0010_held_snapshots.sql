-- A transaction elsewhere that holds a snapshot keeps every row version that is replaced after it. Verbs must not read
-- these dead versions again for each turn (decision 0014).

-- The index of heads names a column that grows with every eighth epoch, so that a lookup in descending order finds the
-- live version first, and so that seven of eight leases stay HOT. A head is created under the lock of its roster row:
-- this keeps one head per agent.
alter table state.agent_state_head
  add column epoch_group bigint not null generated always as (turn_epoch >> 3) stored,
  -- A lease sets it. The PMO clears it when the agent has been idle for a while, so that most leases and endings do not
  -- write the index below.
  add column awake boolean not null default true;
alter table state.agent_state_head
  drop constraint agent_state_head_pkey,
  add primary key (project_id, agent_id, epoch_group),
  add constraint active_is_awake check (awake or status = 'idle');
comment on column state.agent_state_head.epoch_group is
  'The epoch divided by 8: orders the versions of a head in its index, so that a lookup finds the newest one first.';
comment on column state.agent_state_head.awake is
  'False only for an agent that has been idle for a while: sweeps read the heads that are awake.';
update state.agent_state_head set awake = false where status = 'idle';

-- Sweeps read the heads that may be active.
create index head_awake on state.agent_state_head (worker_target) where awake;

-- One active turn per output box (T5.3). An agent's own box needs no row here, because one agent has one turn.
alter table cards.boxes add column agent_id text;
comment on column cards.boxes.agent_id is 'The agent whose own output box this is or was.';
update cards.boxes b set agent_id = h.agent_id from state.agent_state_head h where h.home_box_id = b.box_id;
create table state.borrowed_boxes (
  box_id text not null,
  project_id text not null,
  agent_id text not null,
  constraint one_turn_per_borrowed_box primary key (box_id)
);
comment on table state.borrowed_boxes is
  'The output boxes of active turns that are not their agents'' own boxes. A trigger on heads writes it.';
insert into state.borrowed_boxes (box_id, project_id, agent_id)
select h.output_box_id, h.project_id, h.agent_id from state.agent_state_head h
where h.active_agent_turn_id is not null and h.output_box_id <> coalesce(h.home_box_id, '');
drop index state.head_active_output_box;

create or replace view state.turns as
select i.agent_turn_id, i.inbox_id, i.project_id, i.agent_id, i.channel_id, i.message_type, i.correlation_id,
  case when i.ended_at is not null then i.outcome
       when h.status is not null then h.status
       else i.status end as status,
  case when h.status is not null then h.turn_epoch else i.turn_epoch end as turn_epoch,
  i.deaths, i.claimed_by, i.recursion_depth, i.traceparent, i.source_agent_id, i.source_step_id,
  h.turn_deadline, h.resume_deadline, h.waiting_tool_count, h.activity, h.current_tool,
  i.created_at, i.started_at, i.ended_at, i.outcome, i.deliverable_card_id, i.error
from state.agent_inbox i
left join lateral (
  select h.active_agent_turn_id, h.status, h.turn_epoch, h.turn_deadline, h.resume_deadline, h.waiting_tool_count,
    h.activity, h.current_tool
  from state.agent_state_head h
  where i.ended_at is null and h.project_id = i.project_id and h.agent_id = i.agent_id
  order by h.epoch_group desc limit 1) h on h.active_agent_turn_id = i.agent_turn_id
where i.message_type in ('turn', 'ui_action');
