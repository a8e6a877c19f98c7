-- Schedules start turns or board tasks at instants. A PMO decides about an instant under the lock of its schedule; the
-- primary key of the fires lets each instant start at most one turn or task, whatever clocks and PMOs do.
create table state.schedules (
  project_id text not null,
  schedule_id text not null,
  source text not null constraint schedule_sources check (source in ('file', 'api')),
  -- The folder of the file, as host:path.
  origin text,
  -- The version in force. Null: the file was never valid.
  definition jsonb,
  -- Why the newest version is not in force.
  problem text,
  paused_at timestamptz,
  paused_by text,
  -- The next instant to decide about. Null: paused, invalid, or none is left.
  next_fire_at timestamptz,
  -- The clock at the last decision. A clock that was set back is seen by it.
  decided_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  updated_by text not null,
  primary key (project_id, schedule_id)
);
create index schedules_due on state.schedules (next_fire_at) where next_fire_at is not null;
create index schedules_decided on state.schedules (decided_at) where next_fire_at is not null;
comment on table state.schedules is 'When turns and tasks are started: definitions from files and from the API.';

create table state.schedule_fires (
  project_id text not null,
  schedule_id text not null,
  instant timestamptz not null,
  kind text not null constraint fire_kinds check (kind in ('timer', 'manual')),
  status text not null constraint fire_statuses check (status in ('started', 'waiting', 'skipped', 'failed')),
  reason text,
  -- How many instants a skipped one stands for.
  skipped int not null default 0,
  agent_turn_id text,
  -- The task to add, as the schedule defined it at the instant.
  task jsonb,
  task_id text,
  outcome text,
  requested_by text,
  -- The id of the request for a manual run: repeating the request changes nothing.
  request_id text,
  created_at timestamptz not null,
  ended_at timestamptz,
  primary key (project_id, schedule_id, instant, kind)
);
create index schedule_fires_open on state.schedule_fires (project_id, schedule_id) where ended_at is null;
create unique index schedule_fires_requested on state.schedule_fires (project_id, schedule_id, request_id)
  where request_id is not null;
create index schedule_fires_by_age on state.schedule_fires (created_at);
comment on table state.schedule_fires is 'What became of each instant of a schedule, and of each manual run.';
