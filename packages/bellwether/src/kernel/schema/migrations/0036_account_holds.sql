-- An account is what the key of a model provider or the login of a program is charged to. While an account is held, its
-- turns are suspended; when a window of the hold is over, one of them probes the account.
create table state.account_holds (
  account text primary key,
  -- The provider's or program's message about its limit.
  reason text not null,
  held_since timestamptz not null,
  until timestamptz not null,
  -- Counts the windows of the hold. Each has one probe.
  window_no int not null default 1,
  -- The turn that probes the account; the epoch and the time when its call starts.
  probe_turn_id text,
  probe_epoch bigint,
  probe_at timestamptz,
  ended_at timestamptz,
  ended_by text,
  constraint account_is_short check (length(account) between 1 and 200),
  constraint probe_has_its_turn check (probe_at is null or num_nulls(probe_turn_id, probe_epoch) = 0),
  constraint ended_has_its_reason check ((ended_at is null) = (ended_by is null))
);
comment on table state.account_holds is
  'One row per account that reached a limit of its provider: until when its turns wait, and which turn probes it.';

-- A row outlives its wait until the next sweep.
create table state.parked_turns (
  agent_turn_id text primary key,
  project_id text not null,
  agent_id text not null,
  tool_call_id text not null,
  account text not null,
  parked_at timestamptz not null
);
create index parked_turns_of_account on state.parked_turns (account, parked_at, agent_turn_id);
comment on table state.parked_turns is
  'The suspended turns that wait for an account, each with the wait that its release answers.';
