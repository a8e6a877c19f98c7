-- Limits per calendar day or month, for a project, an agent or a model. The process that owns the settings writes them.
create table state.spending_limits (
  -- What it limits: 'project day', 'agent coder month'.
  limit_id text primary key,
  scope text not null,
  -- Null: every project, each with its own count.
  name text,
  period text not null,
  token_limit bigint,
  cost_micros_limit bigint,
  -- What happens to a call that the limit does not cover: 'hold', or a degrade action.
  action text not null,
  time_zone text not null,
  constraint scope_is_known check (scope in ('project', 'agent', 'model')),
  constraint period_is_known check (period in ('day', 'month'))
);
comment on table state.spending_limits is 'Limits per calendar day or month, as the settings state them.';

create table state.spending_periods (
  period_id bigint generated always as identity primary key,
  limit_id text not null,
  project_id text not null,
  starts_at timestamptz not null,
  ends_at timestamptz not null,
  tokens_used bigint not null default 0,
  tokens_reserved bigint not null default 0,
  cost_micros_used bigint not null default 0,
  cost_micros_reserved bigint not null default 0,
  -- The share of the limit about which people were informed: 0, 80 or 100.
  alerted_percent int not null default 0,
  constraint one_count_per_period unique (limit_id, project_id, starts_at),
  constraint spending_is_counted check (tokens_reserved >= 0 and cost_micros_reserved >= 0)
);
create index spending_periods_by_end on state.spending_periods (ends_at);
comment on table state.spending_periods is
  'What a project has used of a limit in one period. Written with the reservations, under one lock per project.';

alter table state.reservations add column period_ids bigint[];
alter table state.budgets add column spends text;
comment on column state.budgets.spends is
  'The model to which the usage of the turn counts in spending_limits. Null: no such limit applies.';
-- It gets the model of the call.
drop function if exists state.reserve(text, text, text, bigint, text, bigint, bigint);
