-- Approvals: a call of a tool, or of a program that a turn runs, waits until a person allows or denies it.
create table state.approvals (
  -- Of a tool call: the id of its card.
  approval_id text primary key,
  project_id text not null,
  agent_id text not null,
  agent_turn_id text not null,
  -- The epoch whose worker waits for the decision. A takeover that asks the same again raises it.
  turn_epoch bigint not null,
  -- The wait of a suspended turn. Null: a program of a running turn asks.
  tool_call_id text,
  tool_name text not null,
  arguments jsonb not null,
  asked_at timestamptz not null,
  deadline timestamptz not null,
  -- How long the call may take once it is allowed.
  run_seconds double precision not null default 0,
  status text not null default 'waiting',
  scope text,
  decided_by text,
  decided_at timestamptz,
  reason text,
  -- When the program got the decision. An approval for one call counts once.
  used_at timestamptz,
  constraint approval_status_is_known check (status in ('waiting', 'allowed', 'denied', 'expired', 'ended')),
  constraint approval_scope_is_known check (scope in ('once', 'turn', 'agent')),
  constraint allowed_has_a_scope check ((status = 'allowed') = (scope is not null)),
  constraint decided_has_a_time check ((status = 'waiting') = (decided_at is null))
);
create index approvals_waiting on state.approvals (project_id, asked_at) where status = 'waiting';
create index approvals_of_turns on state.approvals (agent_turn_id);
create index approvals_newest on state.approvals (project_id, asked_at);
comment on table state.approvals is
  'Calls that a person allows or denies, and who decided. Without a decision before the deadline, a call is denied.';

-- What people allowed beyond one call: the tool and the arguments that they saw.
create table state.approval_grants (
  grant_id text primary key,
  project_id text not null,
  agent_id text not null,
  -- Null: for every turn of the agent.
  agent_turn_id text,
  tool_name text not null,
  -- The arguments that must be equal, and the names of those that may have any value.
  arguments jsonb not null,
  any_arguments text[] not null default '{}',
  approval_id text not null,
  granted_by text not null,
  granted_at timestamptz not null,
  uses bigint not null default 0,
  last_used_at timestamptz
);
create index approval_grants_of_agents on state.approval_grants (project_id, agent_id, tool_name);
create index approval_grants_of_turns on state.approval_grants (agent_turn_id) where agent_turn_id is not null;
comment on table state.approval_grants is
  'Calls that need no further decision: of one turn, or of an agent until a person revokes the grant.';

alter table state.turn_waiting_tools
  add column approval text,
  add constraint approval_is_known check (approval in ('waiting', 'allowed'));
comment on column state.turn_waiting_tools.approval is
  'waiting: no host may start the call before a person allows it. Null: no approval is needed.';
