-- Who may do what: keys that serve some worker targets, keys of people who answer questions, the secret of each claim
-- over HTTP, and the worker targets that a project may use.

alter table resource.api_keys add column targets text[];
comment on column resource.api_keys.targets is 'The worker targets that a worker''s key may claim from. Null: all.';
alter table resource.api_keys drop constraint key_role_is_known;
alter table resource.api_keys
  add constraint key_role_is_known
    check (role in ('admin', 'operator', 'worker', 'sensor', 'reader', 'answerer')),
  add constraint targets_are_for_workers check (targets is null or role = 'worker' and cardinality(targets) > 0);

alter table resource.projects add column worker_targets text[];
comment on column resource.projects.worker_targets is
  'The worker targets that agents and profiles of the project may have. Null: all.';

-- The secret of the last claim of a turn over HTTP. Workers with a database connection of their own need none, and
-- their role cannot read it.
create table state.lease_tokens (
  agent_turn_id text primary key,
  turn_epoch bigint not null,
  -- SHA-256 of 256 random bits, as for API keys.
  token_hash bytea not null,
  -- Of the claim before: its worker has lost the turn, and gets 'stale' instead of a refusal.
  previous_hash bytea,
  worker_id text not null,
  worker_target text not null,
  -- The key that claimed the turn: it may not answer the questions of this turn.
  key_id text not null,
  claimed_at timestamptz not null default state.now(),
  constraint token_is_hashed check (length(token_hash) = 32)
);

-- They have one more parameter now.
drop function if exists state.claim(text, text, int, double precision);
drop function if exists state.reconcile(text, text, int, double precision);
