-- The tables. Verbs (functions) are in verbs/ and are replaced when their text changes.

create schema resource;
create schema cards;
create schema state;

comment on schema resource is 'The roster: projects, profiles, agents, tools.';
comment on schema cards is 'The content of turns: insert-only cards, append-only boxes.';
comment on schema state is 'The current state: heads, inbox, waits, events, interventions.';

-- The only clock in SQL. The simulation replaces this function; nothing else reads the time.
create function state.now() returns timestamptz language sql volatile parallel safe as 'select clock_timestamp()';

-- ───────────────────────────── domains ──────────────────────────────
-- The values that a single column may hold. They are domains and not table checks because the server parses a table's
-- checks from the catalog for every statement that writes there, but a domain's checks once per session, and checks a
-- domain only when its column is written.

create domain cards.card_type as text constraint card_type_is_known check (value in ('task.instruction',
  'agent.thought', 'tool.call', 'tool.result', 'task.deliverable', 'task.result_fields', 'sys.profile',
  'sys.rendered_prompt', 'meta.parent_pointer'));
-- 8 MiB: callers are limited to 1 MiB of JSON text; this is the last limit against a runaway writer.
create domain cards.card_content as jsonb constraint card_is_bounded check (pg_column_size(value) <= 8388608);
create domain state.head_status as text constraint status_is_known check (value in ('idle', 'dispatched', 'running',
  'suspended'));
create domain state.activity as text constraint activity_is_known check (value in ('thinking', 'executing_tool',
  'awaiting_tool_result'));
create domain state.wait_count as int constraint waits_are_counted check (value >= 0);
create domain state.deadline_seconds as double precision constraint turn_deadline_is_bounded check (value > 0
  and value <= 31536000);
create domain state.message_type as text constraint message_type_is_known check (value in ('turn', 'ui_action',
  'tool_result', 'timeout', 'stop'));
create domain state.inbox_status as text constraint inbox_status_is_known
  check (value in ('queued', 'pending', 'processing', 'consumed', 'skipped', 'error', 'cancelled'));
create domain state.outcome as text constraint outcome_is_known check (value in ('success', 'failed', 'timeout',
  'canceled'));
create domain state.payload as jsonb constraint payload_is_bounded check (pg_column_size(value) <= 262144);
create domain state.primitive as text constraint primitive_is_known check (value in ('enqueue', 'report', 'join'));
create domain state.edge_phase as text constraint edge_phase_is_known check (value in ('request', 'response'));
create domain state.event_kind as text constraint event_kind_is_known check (value in ('task', 'state', 'step',
  'command'));

-- ───────────────────────────── resource ─────────────────────────────

create table resource.projects (
  project_id text primary key,
  created_at timestamptz not null default state.now(),
  constraint project_id_is_a_token check (project_id ~ '^[a-z0-9_-]{1,120}$')
);

create table resource.profiles (
  project_id text not null references resource.projects,
  profile_id text not null,
  name text not null,
  worker_target text not null,
  spec jsonb not null default '{}',
  primary key (project_id, profile_id),
  constraint worker_target_is_a_token check (worker_target ~ '^[a-z0-9_-]{1,120}$')
);

create table resource.project_agents (
  project_id text not null references resource.projects,
  agent_id text not null,
  profile_id text,
  worker_target text not null,
  status text not null default 'active',
  metadata jsonb not null default '{}',
  primary key (project_id, agent_id),
  foreign key (project_id, profile_id) references resource.profiles,
  constraint agent_id_is_a_token check (agent_id ~ '^[a-z0-9_-]{1,120}$'),
  constraint worker_target_is_a_token check (worker_target ~ '^[a-z0-9_-]{1,120}$'),
  constraint agent_status_is_known check (status in ('active', 'retired'))
);

create table resource.tools (
  project_id text not null references resource.projects,
  tool_name text not null,
  description text not null default '',
  parameters jsonb not null default '{}',
  target_subject text,
  after_execution text not null default 'suspend',
  options jsonb not null default '{}',
  primary key (project_id, tool_name),
  constraint tool_name_is_a_token check (tool_name ~ '^[a-z0-9_-]{1,120}$'),
  constraint after_execution_is_known check (after_execution in ('suspend', 'terminate'))
);

-- ────────────────────────────── cards ───────────────────────────────
-- No foreign keys between hot tables: each would add a lookup and a row lock per insert to every turn. The verbs write
-- both sides in one transaction, and the simulation's invariants check that no side is missing.

create table cards.cards (
  card_id text primary key,
  project_id text not null,
  type cards.card_type not null,
  role text not null,
  content cards.card_content not null,
  metadata jsonb not null default '{}',
  created_at timestamptz not null
);

create table cards.boxes (
  box_id text primary key,
  project_id text not null,
  kind text not null,
  -- Set once when a context box is created, so that deliver does not search the box.
  result_fields_card_id text,
  created_at timestamptz not null,
  constraint box_kind_is_known check (kind in ('context', 'output'))
);

-- Positions grow and may have gaps: one sequence for all boxes needs no counter row per box.
create sequence cards.position;

create table cards.box_cards (
  box_id text not null,
  position bigint not null default nextval('cards.position'),
  card_id text not null,
  primary key (box_id, position)
);

-- ────────────────────────────── state ───────────────────────────────

create table state.agent_state_head (
  project_id text not null,
  agent_id text not null,
  status state.head_status not null default 'idle',
  active_agent_turn_id text,
  active_channel_id text,
  turn_epoch bigint not null default 0,
  active_recursion_depth int not null default 0,
  parent_step_id text,
  trace_id text,
  profile_id text,
  context_box_id text,
  output_box_id text,
  expecting_correlation_id text,
  waiting_tool_count state.wait_count not null default 0,
  resume_deadline timestamptz,
  turn_deadline timestamptz,
  updated_at timestamptz not null,
  -- Not on the wire: the target to ring, and what watchdogs and people look at.
  worker_target text not null,
  leased_at timestamptz,
  turn_deadline_seconds state.deadline_seconds,
  -- The agent's own output box; a turn with another box returns to it when it ends.
  home_box_id text,
  resume_seconds double precision,
  activity state.activity,
  current_tool text,
  -- Whether the turn has a budget or batches that its end must settle. Other turns skip that work.
  holds boolean not null default false,
  primary key (project_id, agent_id),
  constraint idle_holds_nothing check (status <> 'idle'
    or num_nonnulls(active_agent_turn_id, active_channel_id, turn_deadline, leased_at, expecting_correlation_id) = 0),
  constraint active_names_its_turn check (status = 'idle'
    or (num_nulls(active_agent_turn_id, turn_deadline, leased_at) = 0 and turn_epoch > 0)),
  constraint only_suspended_waits check (status = 'suspended' or (waiting_tool_count = 0 and resume_deadline is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on table state.agent_state_head is
  'One row per agent: the state machine. Every write names the fence (agent, turn, epoch).';

-- One active turn per output box (T5.3). Sweeps also use this index to scan the active heads. Its predicate changes
-- only when a turn is leased or ends, so that start, beat, suspend and resume stay HOT.
create unique index head_active_output_box on state.agent_state_head (output_box_id)
  where active_agent_turn_id is not null;

create table state.agent_inbox (
  inbox_id text primary key,
  project_id text not null,
  agent_id text not null,
  channel_id text,
  message_type state.message_type not null,
  status state.inbox_status not null,
  correlation_id text,
  agent_turn_id text,
  turn_epoch bigint,
  recursion_depth int not null default 0,
  traceparent text,
  parent_step_id text,
  source_agent_id text,
  source_step_id text,
  payload state.payload not null default '{}',
  attempts int not null default 0,
  claimed_by text,
  created_at timestamptz not null default state.now(),
  processed_at timestamptz,
  archived_at timestamptz,
  outcome state.outcome,
  error text,
  deliverable_card_id text,
  ended_at timestamptz,
  watchdog_error text,
  watchdog_at timestamptz,
  worker_target text not null,
  started_at timestamptz,
  constraint outcome_has_its_time check ((outcome is null) = (ended_at is null)),
  constraint ended_is_settled check (ended_at is null or status = 'consumed' or status = 'cancelled'),
  constraint queued_has_no_epoch check (status <> 'queued' or turn_epoch is null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);

comment on table state.agent_inbox is 'The requests and their results: one row per request or receipt.';

create unique index inbox_turn on state.agent_inbox (agent_turn_id) where message_type in ('turn', 'ui_action');
create unique index inbox_receipt on state.agent_inbox (agent_turn_id, correlation_id)
  where message_type in ('tool_result', 'timeout');
create unique index inbox_correlation on state.agent_inbox (project_id, agent_id, correlation_id)
  where message_type in ('turn', 'ui_action') and correlation_id is not null;
create index inbox_queued on state.agent_inbox (project_id, agent_id, created_at, inbox_id) where status = 'queued';
create index inbox_pending on state.agent_inbox (worker_target, created_at, inbox_id) where status = 'pending';
create index inbox_processing on state.agent_inbox (worker_target) where status = 'processing';

create table state.agent_steps (
  project_id text not null,
  agent_id text not null,
  step_id text primary key,
  agent_turn_id text not null,
  phase text not null,
  status text not null,
  tool_call_ids text[] not null default '{}',
  metadata jsonb not null default '{}',
  error text,
  started_at timestamptz not null,
  ended_at timestamptz
);
create index steps_of_turn on state.agent_steps (agent_turn_id);

create table state.turn_waiting_tools (
  project_id text not null,
  agent_id text not null,
  agent_turn_id text not null,
  turn_epoch bigint not null,
  step_id text not null,
  tool_call_id text not null,
  tool_name text not null,
  wait_status text not null default 'waiting',
  tool_result_card_id text,
  tool_call_card_id text,
  after_execution text not null default 'suspend',
  idempotent boolean not null default false,
  started_by text,
  started_at timestamptz,
  sent_at timestamptz,
  -- The order of waits, independent of any clock.
  wait_seq bigint generated always as identity,
  created_at timestamptz not null default state.now(),
  primary key (project_id, tool_call_id),
  constraint wait_status_is_known check (wait_status in ('waiting', 'received', 'applied', 'expired', 'dropped')),
  constraint wait_after_execution_is_known check (after_execution in ('suspend', 'terminate')),
  constraint received_names_its_result check (wait_status not in ('received', 'applied', 'expired')
    or tool_result_card_id is not null)
);
create index waits_of_turn on state.turn_waiting_tools (agent_turn_id);

create table state.turn_resume_ledger (
  project_id text not null,
  agent_turn_id text not null,
  turn_epoch bigint not null,
  tool_call_id text not null,
  status text not null,
  lease_expires_at timestamptz,
  attempts int not null default 0,
  primary key (agent_turn_id, tool_call_id),
  constraint ledger_status_is_known check (status in ('pending', 'processing', 'applied')),
  constraint only_processing_is_leased check ((status = 'processing') = (lease_expires_at is not null))
);
create index ledger_open on state.turn_resume_ledger (agent_turn_id) where status in ('pending', 'processing');

create table state.execution_edges (
  edge_id text primary key,
  project_id text not null,
  primitive state.primitive not null,
  edge_phase state.edge_phase not null,
  source_agent_id text,
  source_agent_turn_id text,
  source_step_id text,
  target_agent_id text,
  target_agent_turn_id text,
  correlation_id text,
  trace_id text,
  parent_step_id text,
  recursion_depth int not null default 0,
  created_at timestamptz not null
);
create index edges_from_turn on state.execution_edges (source_agent_turn_id) where source_agent_turn_id is not null;

create table state.force_terminations (
  agent_turn_id text not null,
  turn_epoch bigint not null,
  reason text not null,
  created_at timestamptz not null,
  primary key (agent_turn_id, turn_epoch)
);

-- The outbox. Readers order by (xid, event_id) below the snapshot's xmin: this pair is the cursor, and nothing is
-- skipped.
create table state.events (
  event_id bigint generated always as identity,
  xid xid8 not null default pg_current_xact_id(),
  project_id text not null,
  subject text not null,
  kind state.event_kind not null,
  payload jsonb not null,
  agent_turn_id text,
  created_at timestamptz not null,
  primary key (xid, event_id)
) with (autovacuum_vacuum_insert_scale_factor = 0.1);
create unique index one_task_event_per_turn on state.events (agent_turn_id) where kind = 'task';

-- The positions of relays whose sink stores none, of other readers, and of retention ('pruned').
create table state.event_cursors (
  name text primary key,
  xid xid8 not null,
  event_id bigint not null,
  updated_at timestamptz not null
);

create table state.interventions (
  intervention_id bigint generated always as identity primary key,
  kind text not null,
  project_id text,
  agent_id text,
  agent_turn_id text,
  turn_epoch bigint,
  reason text not null,
  before jsonb not null default '{}',
  after jsonb not null default '{}',
  created_at timestamptz not null
);
create index interventions_of_turn on state.interventions (agent_turn_id) where agent_turn_id is not null;

create table state.workers (
  worker_id text primary key,
  worker_target text not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  last_claim_at timestamptz,
  concurrency int,
  -- The free slots at the last sign-in: a full worker claims nothing and is not dead (W2.5).
  free int
) with (fillfactor = 50);
create index workers_of_target on state.workers (worker_target);

-- Limits that every process must agree on: written by the process that owns the settings, read by the verbs.
create table state.limits (
  one boolean primary key default true check (one),
  turn_deadline_seconds double precision not null default 3600 check (turn_deadline_seconds > 0),
  max_recursion_depth int not null default 20 check (max_recursion_depth > 0)
);
insert into state.limits default values;

-- What may be spent. A purse has no turn and lasts; the budget of a turn closes with the turn, after the budgets of its
-- children, and what it did not use returns to its parent. Tokens and cost are escrowed: opening a child takes its
-- limit from the parent, so that running children never contend for one row. No foreign keys, as between hot tables.
create table state.budgets (
  budget_id text primary key,
  project_id text not null,
  agent_turn_id text,
  parent_budget_id text,
  -- Verbs lock budgets deepest first, then by id.
  depth int not null default 0,
  token_limit bigint,
  wall_ms_limit bigint,
  cost_micros_limit bigint,
  -- A slice without a requested amount: it may take more from the free part of its parent.
  soft boolean not null default false,
  tokens_used bigint not null default 0,
  tokens_reserved bigint not null default 0,
  tokens_escrowed bigint not null default 0,
  cost_micros_used bigint not null default 0,
  cost_micros_reserved bigint not null default 0,
  cost_micros_escrowed bigint not null default 0,
  wall_ms_used bigint not null default 0,
  open_children int not null default 0,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- The turn has ended.
  ended_at timestamptz,
  -- The children have ended too: the row does not change any more.
  closed_at timestamptz,
  constraint budget_is_not_negative check (tokens_used >= 0 and tokens_reserved >= 0 and tokens_escrowed >= 0
    and cost_micros_used >= 0
    and cost_micros_reserved >= 0 and cost_micros_escrowed >= 0 and wall_ms_used >= 0 and open_children >= 0),
  constraint closed_holds_nothing check (closed_at is null
    or (ended_at is not null and tokens_reserved = 0 and tokens_escrowed = 0 and cost_micros_reserved = 0
      and cost_micros_escrowed = 0 and open_children = 0))
);
create unique index budget_of_turn on state.budgets (agent_turn_id) where agent_turn_id is not null;
create index budgets_timed on state.budgets (budget_id)
  where wall_ms_limit is not null and agent_turn_id is not null and ended_at is null;
create index budgets_overdrawn on state.budgets (budget_id)
  where agent_turn_id is not null and ended_at is null
    and (tokens_used > token_limit or cost_micros_used > cost_micros_limit);

create table state.reservations (
  reservation_id text primary key,
  budget_id text not null,
  agent_turn_id text not null,
  turn_epoch bigint not null,
  tokens bigint not null check (tokens >= 0),
  cost_micros bigint not null default 0 check (cost_micros >= 0),
  status text not null,
  -- What the call used. For a 'charged' reservation this is unknown, and the full amount counts.
  tokens_used bigint,
  cost_micros_used bigint,
  created_at timestamptz not null,
  settled_at timestamptz,
  constraint reservation_status_is_known check (status in ('open', 'committed', 'released', 'charged')),
  constraint settled_has_its_time check ((status = 'open') = (settled_at is null))
);
create index reservations_open on state.reservations (agent_turn_id) where status = 'open';

create table state.batches (
  batch_id text primary key,
  project_id text not null,
  parent_agent_id text,
  parent_agent_turn_id text,
  parent_turn_epoch bigint,
  parent_step_id text,
  tool_call_id text,
  channel_id text,
  traceparent text,
  -- The recursion depth of its children.
  recursion_depth int not null default 0,
  status text not null,
  fail_fast boolean not null default false,
  task_count int not null,
  open_count int not null check (open_count >= 0),
  done_count int not null default 0,
  failed_count int not null default 0,
  deadline timestamptz,
  next_look_at timestamptz not null,
  next_full_look_at timestamptz,
  created_at timestamptz not null,
  ended_at timestamptz,
  -- The 'join' edge, written when the batch is over.
  join_edge_id text,
  -- The parent is answered and every child has ended: the joiner is finished with this batch.
  settled_at timestamptz,
  constraint batch_status_is_known check (status in ('open', 'done', 'failed', 'canceled', 'timeout')),
  constraint ended_batch_has_its_time check ((status = 'open') = (ended_at is null))
) with (fillfactor = 50);
create index batches_of_turn on state.batches (parent_agent_turn_id) where status = 'open';
create index batches_live on state.batches (batch_id) where settled_at is null;

create table state.batch_tasks (
  batch_id text not null,
  position int not null,
  agent_id text,
  agent_turn_id text not null,
  inbox_id text not null,
  -- Of an agent that is created for the task.
  output_box_id text,
  context_box_id text,
  budget_id text,
  target_strategy text not null,
  target_ref text not null,
  status text not null,
  attempts int not null default 0,
  next_attempt_at timestamptz,
  outcome text,
  error text,
  deliverable_card_id text,
  primary key (batch_id, position),
  constraint target_strategy_is_known check (target_strategy in ('new', 'reuse', 'clone')),
  -- stopping: the batch closed before the task ended; canceled when its turn has ended.
  constraint batch_task_status_is_known check (status in ('waiting', 'dispatched', 'stopping', 'done', 'failed',
    'canceled'))
) with (fillfactor = 70);
create unique index batch_task_turn on state.batch_tasks (agent_turn_id);

-- ──────────────── types that verbs pass to each other ────────────────

-- What a verb did with one item. If worker_target is not null, the caller rings that target after the commit.
create type state.verdict as (
  what text, project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, inbox_id text,
  worker_target text, channel_id text, detail jsonb
);

-- A lease that was decided under the head's lock; state.lease executes it.
create type state.leasing as (
  project_id text, agent_id text, agent_turn_id text, inbox_id text, channel_id text, recursion_depth int,
    parent_step_id text, traceparent text,
  context_box_id text, output_box_id text, expecting_correlation_id text, holds boolean
);

-- An item of enqueue.
create type state.new_turn as (
  inbox_id text, agent_turn_id text, project_id text, agent_id text, channel_id text, correlation_id text,
    recursion_depth int,
  traceparent text, parent_step_id text, source_agent_id text, source_agent_turn_id text, source_step_id text,
    payload jsonb, box jsonb,
  given_context_box_id text, given_output_box_id text
);

-- An item of deliver.
create type state.delivery as (
  project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, status text, error text, card_id text,
    content jsonb
);

-- An ending that was decided under the head's lock; state.finish_turn_idle executes it.
create type state.ending as (
  project_id text, agent_id text, agent_turn_id text, bump_epoch boolean, outcome text, error text,
  card_id text, content jsonb, force_reason text, was_suspended boolean, holds boolean
);

-- A turn that the watchdog found overdue, and how it ends.
create type state.overdue as (
  project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, status state.head_status,
    updated_at timestamptz, outcome text, error text
);

-- ───────────────────────────── triggers ─────────────────────────────

-- The legal moves of a head, for people and tests. The trigger below rejects all others without reading this table.
create table state.moves (
  move text primary key,
  from_statuses text[] not null,
  to_status text not null,
  bumps_epoch boolean not null
);

insert into state.moves (move, from_statuses, to_status, bumps_epoch) values
  ('lease', '{idle}', 'dispatched', true),
  ('start', '{dispatched}', 'running', false),
  ('beat', '{running}', 'running', false),
  ('reclaim', '{running}', 'running', true),
  ('takeover', '{running}', 'running', false),
  ('suspend', '{running}', 'suspended', false),
  ('receive', '{suspended}', 'suspended', false),
  ('resume', '{suspended}', 'running', false),
  ('deliver', '{running,suspended}', 'idle', false),
  ('stop', '{dispatched,running,suspended}', 'idle', true),
  ('reap', '{dispatched,running,suspended}', 'idle', true);

create function state.refuse_move() returns trigger language plpgsql as $$
begin
  raise exception 'agent % may not go from % (epoch %, turn %) to % (epoch %, turn %)',
    new.agent_id, old.status, old.turn_epoch, old.active_agent_turn_id, new.status, new.turn_epoch,
    new.active_agent_turn_id
    using errcode = 'BW001', hint = 'see state.moves for the legal moves';
end $$;

-- One trigger with a short condition: the server parses it from the catalog for every statement.
create trigger refuse_illegal_move before update on state.agent_state_head for each row
  when (new.turn_epoch < old.turn_epoch or old.active_agent_turn_id <> new.active_agent_turn_id
    or old.status <> new.status
    and strpos('idle>dispatched>running>suspended>running,dispatched>idle,running>idle,suspended>idle',
      old.status || '>' || new.status) = 0)
  execute function state.refuse_move();

create function state.refuse_rewrite() returns trigger language plpgsql as $$
begin
  raise exception '% is insert-only', tg_table_schema || '.' || tg_table_name using errcode = 'BW002';
end $$;

create trigger cards_are_insert_only before update on cards.cards
  for each row execute function state.refuse_rewrite();
create trigger boxes_are_append_only before update on cards.box_cards
  for each row execute function state.refuse_rewrite();
create trigger edges_are_insert_only before update on state.execution_edges
  for each row execute function state.refuse_rewrite();

-- A program that writes a row directly may not know the worker target of the agent.
create function state.find_worker_target() returns trigger language plpgsql as $$
begin
  new.worker_target := coalesce(
    (select a.worker_target from resource.project_agents a
      where a.project_id = new.project_id and a.agent_id = new.agent_id), 'unknown');
  return new;
end $$;

create trigger inbox_finds_its_target before insert on state.agent_inbox for each row
  when (new.worker_target is null) execute function state.find_worker_target();

create view state.turns as
select i.agent_turn_id, i.inbox_id, i.project_id, i.agent_id, i.channel_id, i.message_type, i.correlation_id,
  case when i.ended_at is not null then i.outcome
       when h.status is not null then h.status
       else i.status end as status,
  case when h.status is not null then h.turn_epoch else i.turn_epoch end as turn_epoch,
  i.attempts, i.claimed_by, i.recursion_depth, i.traceparent, i.source_agent_id, i.source_step_id,
  h.turn_deadline, h.resume_deadline, h.waiting_tool_count, h.activity, h.current_tool,
  i.created_at, i.started_at, i.ended_at, i.outcome, i.deliverable_card_id, i.error
from state.agent_inbox i
left join state.agent_state_head h
  on h.project_id = i.project_id and h.agent_id = i.agent_id and h.active_agent_turn_id = i.agent_turn_id
where i.message_type in ('turn', 'ui_action');
