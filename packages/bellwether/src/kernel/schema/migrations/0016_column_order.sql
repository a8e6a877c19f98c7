-- The columns that change during a turn come last (decision 0015): PostgreSQL logs an update from the first byte that
-- differs to the last one. The tables are copied into new ones. This file and the verbs create the views, triggers and
-- functions again that depend on them.

create table state.new_inbox (
  inbox_id text not null,
  project_id text not null,
  agent_id text not null,
  worker_target text not null,
  channel_id text,
  message_type state.message_type not null,
  correlation_id text,
  agent_turn_id text,
  recursion_depth int not null default 0,
  traceparent text,
  parent_step_id text,
  source_agent_id text,
  source_agent_turn_id text,
  source_step_id text,
  payload state.payload not null default '{}',
  created_at timestamptz not null default state.now(),
  deaths int not null default 0,
  turn_epoch bigint,
  status state.inbox_status not null,
  -- Whether state.queue has a row for this one. A statement that keeps both writes it; for others, a trigger does.
  in_queue boolean not null default false,
  -- Of a pending row: the same as in state.queue.
  pending_xid xid8,
  claimed_by text,
  processed_at timestamptz,
  started_at timestamptz,
  archived_at timestamptz,
  outcome state.outcome,
  error text,
  deliverable_card_id text,
  ended_at timestamptz,
  watchdog_error text,
  watchdog_at timestamptz
)
-- Room for two more versions of every row of a page: the claim and the ending of a batch update all of them, and the
-- snapshots of other sessions may keep the older ones.
with (fillfactor = 35, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
insert into state.new_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, correlation_id,
  agent_turn_id, recursion_depth, traceparent, parent_step_id, source_agent_id, source_agent_turn_id, source_step_id,
  payload, created_at, deaths, turn_epoch, status, in_queue, pending_xid, claimed_by, processed_at, started_at,
  archived_at, outcome, error, deliverable_card_id, ended_at, watchdog_error, watchdog_at)
select inbox_id, project_id, agent_id, worker_target, channel_id, message_type, correlation_id,
  agent_turn_id, recursion_depth, traceparent, parent_step_id, source_agent_id, source_agent_turn_id, source_step_id,
  payload, created_at, deaths, turn_epoch, status, in_queue, pending_xid, claimed_by, processed_at, started_at,
  archived_at, outcome, error, deliverable_card_id, ended_at, watchdog_error, watchdog_at
from state.agent_inbox;
drop table state.agent_inbox cascade;
alter table state.new_inbox rename to agent_inbox;
alter table state.agent_inbox
  add constraint agent_inbox_pkey primary key (inbox_id),
  add constraint outcome_has_its_time check ((outcome is null) = (ended_at is null)),
  add constraint ended_is_settled check (ended_at is null or status = 'consumed' or status = 'cancelled'),
  add constraint queued_has_no_epoch check (status <> 'queued' or turn_epoch is null);
comment on table state.agent_inbox is 'The requests and their results: one row per request or receipt.';
create unique index inbox_turn on state.agent_inbox (agent_turn_id) where message_type in ('turn', 'ui_action');
create unique index inbox_receipt on state.agent_inbox (agent_turn_id, correlation_id)
  where message_type in ('tool_result', 'timeout');
create unique index inbox_correlation on state.agent_inbox (project_id, agent_id, correlation_id)
  where message_type in ('turn', 'ui_action') and correlation_id is not null;
create index inbox_from_turn on state.agent_inbox (source_agent_turn_id) where source_agent_turn_id is not null;
create trigger inbox_finds_its_target before insert on state.agent_inbox for each row
  when (new.worker_target is null) execute function state.find_worker_target();

create table state.new_head (
  project_id text not null,
  agent_id text not null,
  worker_target text not null,
  profile_id text,
  turn_deadline_seconds state.deadline_seconds,
  -- The agent's own output box; a turn with another box returns to it when it ends.
  home_box_id text,
  output_box_id text,
  shared_deaths int not null default 0,
  -- False only for an agent that has been idle for a while: sweeps read the heads that are awake.
  awake boolean not null default true,
  -- Whether the turn has a budget or batches that its end must settle. Other turns skip that work.
  holds boolean not null default false,
  turn_epoch bigint not null default 0,
  -- The epoch divided by 8: orders the versions of a head in its index, so that a lookup finds the newest one first.
  epoch_group bigint not null generated always as (turn_epoch >> 3) stored,
  -- No row in the queue of the agent is older. Null: unknown.
  queued_since timestamptz,
  context_box_id text,
  active_agent_turn_id text,
  active_channel_id text,
  active_recursion_depth int not null default 0,
  parent_step_id text,
  trace_id text,
  expecting_correlation_id text,
  leased_at timestamptz,
  turn_deadline timestamptz,
  resume_deadline timestamptz,
  resume_seconds double precision,
  waiting_tool_count state.wait_count not null default 0,
  activity state.activity,
  current_tool text,
  status state.head_status not null default 'idle',
  updated_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
insert into state.new_head (project_id, agent_id, worker_target, profile_id, turn_deadline_seconds, home_box_id,
  output_box_id, shared_deaths, awake, holds, turn_epoch, queued_since, context_box_id, active_agent_turn_id,
  active_channel_id, active_recursion_depth, parent_step_id, trace_id, expecting_correlation_id, leased_at,
  turn_deadline, resume_deadline, resume_seconds, waiting_tool_count, activity, current_tool, status, updated_at)
select project_id, agent_id, worker_target, profile_id, turn_deadline_seconds, home_box_id,
  output_box_id, shared_deaths, awake, holds, turn_epoch, queued_since, context_box_id, active_agent_turn_id,
  active_channel_id, active_recursion_depth, parent_step_id, trace_id, expecting_correlation_id, leased_at,
  turn_deadline, resume_deadline, resume_seconds, waiting_tool_count, activity, current_tool, status, updated_at
from state.agent_state_head;
drop table state.agent_state_head cascade;
alter table state.new_head rename to agent_state_head;
alter table state.agent_state_head
  add constraint agent_state_head_pkey primary key (project_id, agent_id, epoch_group),
  add constraint idle_holds_nothing check (status <> 'idle'
    or num_nonnulls(active_agent_turn_id, active_channel_id, turn_deadline, leased_at, expecting_correlation_id) = 0),
  add constraint active_names_its_turn check (status = 'idle'
    or (num_nulls(active_agent_turn_id, turn_deadline, leased_at) = 0 and turn_epoch > 0)),
  add constraint only_suspended_waits check (status = 'suspended'
    or (waiting_tool_count = 0 and resume_deadline is null)),
  add constraint active_is_awake check (awake or status = 'idle');
comment on table state.agent_state_head is
  'One row per agent: the state machine. Every write names the fence (agent, turn, epoch).';
create index head_awake on state.agent_state_head (worker_target) where awake;
create index head_shared_deaths on state.agent_state_head (worker_target) where shared_deaths > 0;
-- A BEFORE trigger locks each row that is updated, also if its condition is false; an AFTER trigger does not.
create trigger refuse_illegal_move after update on state.agent_state_head for each row
  when (new.turn_epoch < old.turn_epoch or old.active_agent_turn_id <> new.active_agent_turn_id
    or old.status <> new.status
    and strpos('idle>dispatched>running>suspended>running,dispatched>idle,running>idle,suspended>idle',
      old.status || '>' || new.status) = 0)
  execute function state.refuse_move();

create view state.turns as
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
