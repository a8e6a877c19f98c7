-- Which limits of a turn its agent file set, so that people see where to change them.
alter table state.budgets add column agent_limits text[] not null default '{}';
comment on column state.budgets.agent_limits is
  'The limits that the agent file set. The others come from the request, the parent or the purse.';
