-- What the Trends page shows: counts per project and agent in buckets of five minutes, an hour and a day (UTC). The PMO
-- adds each ended turn once (verbs/trends). Turns that ended before this migration are counted from the outbox.
create type state.trend_measure as enum ('turns', 'queue_ms', 'run_ms', 'cost_micros', 'input_tokens', 'output_tokens',
  'cache_read_tokens', 'cache_write_tokens', 'interventions');

create table state.trends (
  -- The length of the bucket in seconds.
  grain int not null,
  starts_at timestamptz not null,
  project_id text not null,
  measure state.trend_measure not null,
  -- Empty: the sum of all agents, so that the whole project is few rows.
  agent_id text not null,
  -- Of turns the outcome, of interventions the rule, of costs the model, of times the bucket of the histogram.
  label text not null,
  amount bigint not null,
  primary key (grain, starts_at, project_id, measure, agent_id, label)
) with (fillfactor = 70);
comment on table state.trends is 'Counts of ended turns and interventions per bucket of time, written by the PMO.';

-- Samples of the present, one per minute: how many turns wait, and how many slots of the workers are busy.
create type state.trend_gauge as enum ('samples', 'queued', 'slots', 'busy');
create table state.trend_gauges (
  grain int not null,
  starts_at timestamptz not null,
  gauge state.trend_gauge not null,
  -- Of queued turns the project, of slots the worker target.
  name text not null,
  total bigint not null,
  highest bigint not null,
  primary key (grain, starts_at, gauge, name)
) with (fillfactor = 50);
comment on table state.trend_gauges is 'Sums and maxima of samples per bucket of time, written by the PMO.';

-- How far the outbox is counted. Its lock makes one PMO count at a time.
create table state.trend_progress (
  one boolean primary key default true check (one),
  xid xid8 not null,
  event_id bigint not null,
  sampled_at timestamptz not null
);
comment on table state.trend_progress is
  'The position in the outbox up to which turns are counted, and the minute of the last sample.';
insert into state.trend_progress (xid, event_id, sampled_at) values ('0', 0, '-infinity');

alter table state.interventions add column counted boolean not null default false;
comment on column state.interventions.counted is 'Whether state.trends contains it.';
create index interventions_to_count on state.interventions (intervention_id) where not counted;
