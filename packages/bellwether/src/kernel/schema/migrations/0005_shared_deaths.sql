-- How often a worker died while it ran this turn beside others, so that no turn could be charged with the death. The
-- index is nearly always empty: claim reads it to learn whether any turn of its target needs room.
alter table state.agent_state_head add column shared_deaths int not null default 0;
create index head_shared_deaths on state.agent_state_head (worker_target) where shared_deaths > 0;

-- Since when the worker has signed in without a gap; when it began to shut down; when turns that it ran together were
-- taken from it.
alter table state.workers add column live_since timestamptz, add column drained_at timestamptz,
  add column shared_death_at timestamptz;
update state.workers set live_since = seen_at;
drop function if exists state.sign_in(text, text, int, int);
