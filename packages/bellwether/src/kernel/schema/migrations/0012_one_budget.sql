-- Usage by kind, for budgets and reservations. `tokens_used` counts fresh tokens: input, output and cache writes.
-- Output and cache writes have columns of their own; the rest is input. Cache reads count only in money.
alter table state.budgets
  add column output_tokens_used bigint not null default 0,
  add column cache_read_tokens_used bigint not null default 0,
  add column cache_write_tokens_used bigint not null default 0,
  -- Time in which the turn could not work, because its processes were frozen.
  add column paused_ms bigint not null default 0,
  -- The limits that stopped the turn: tokens, cost_micros, wall_ms.
  add column exceeded_keys text[] not null default '{}';
alter table state.reservations
  add column output_tokens_used bigint not null default 0,
  add column cache_read_tokens_used bigint not null default 0,
  add column cache_write_tokens_used bigint not null default 0,
  add column paused_ms bigint not null default 0;
create index budgets_of_parent on state.budgets (parent_budget_id) where parent_budget_id is not null;

-- What a call or a step used. `tokens` are fresh tokens.
create type state.usage as (tokens bigint, output_tokens bigint, cache_read_tokens bigint, cache_write_tokens bigint,
  cost_micros bigint, paused_ms bigint);
drop function if exists state.commit_usage(text, text, text, bigint, text, bigint, bigint);
