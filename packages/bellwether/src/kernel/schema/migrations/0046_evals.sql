-- Evaluations: suites come from files; a run stores the suite as it was when it started, and one row per case, variant
-- and repeat. The `up` whose folder defines the suite drives its runs: every write names the status that it changes.
create table state.eval_suites (
  project_id text not null,
  suite_id text not null,
  -- The folder of the file, as host:path.
  origin text not null,
  -- The version in force, with the texts of its files. Null: the file was never valid.
  definition jsonb,
  -- Why the newest version is not in force.
  problem text,
  updated_at timestamptz not null,
  primary key (project_id, suite_id)
);
comment on table state.eval_suites is 'The evaluation suites of the files evals/NAME.toml.';

create table state.eval_runs (
  run_id text primary key,
  project_id text not null,
  suite_id text not null,
  origin text not null,
  definition jsonb not null,
  -- What the request chose. An equal request continues the open run.
  request jsonb not null,
  status text not null constraint eval_run_statuses check (status in ('open', 'stopping', 'done', 'stopped')),
  reason text,
  requested_by text not null,
  created_at timestamptz not null,
  ended_at timestamptz
);
create unique index eval_runs_open on state.eval_runs (project_id, suite_id) where ended_at is null;
create index eval_runs_by_age on state.eval_runs (project_id, created_at desc, run_id);
create index eval_runs_ended on state.eval_runs (created_at) where ended_at is not null;
comment on table state.eval_runs is 'Runs of evaluation suites.';

create table state.eval_results (
  run_id text not null,
  place int not null,
  case_no int not null,
  variant_no int not null,
  repeat_no int not null,
  status text not null constraint eval_result_statuses
    check (status in ('waiting', 'started', 'judging', 'done', 'skipped')),
  batch_id text,
  -- The part of the run's cost limit that is set aside for it.
  share_micros bigint,
  agent_turn_id text,
  outcome text,
  error text,
  passed boolean,
  checks jsonb not null default '[]',
  output text,
  output_truncated boolean not null default false,
  tokens bigint not null default 0,
  cost_micros bigint not null default 0,
  judge_cost_micros bigint not null default 0,
  duration_ms bigint,
  primary key (run_id, place)
);
create index eval_results_open on state.eval_results (run_id, place) where status in ('waiting', 'started', 'judging');
comment on table state.eval_results is 'One turn of a run: its case, variant and repeat, and what the checks found.';
