-- API keys, the audit log, and the stored responses of idempotent requests.

create table resource.api_keys (
  key_id text primary key,
  name text not null,
  role text not null,
  -- A key that names a view or a project gives access to nothing else.
  view_name text,
  project_id text,
  -- SHA-256 of 256 random bits: they cannot be guessed, so the hash needs neither salt nor a slow function.
  hash bytea not null,
  -- After a rotation with a grace period, both secrets are valid for a while.
  previous_hash bytea,
  previous_until timestamptz,
  created_at timestamptz not null,
  created_by text not null,
  rotated_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  constraint key_role_is_known check (role in ('admin', 'operator', 'worker', 'sensor', 'reader')),
  constraint key_is_hashed check (length(hash) = 32 and (previous_hash is null or length(previous_hash) = 32)),
  constraint sensor_names_its_view check (role <> 'sensor' or view_name is not null),
  constraint previous_has_its_end check ((previous_hash is null) = (previous_until is null))
);
create unique index api_keys_hash on resource.api_keys (hash);

-- Who did what. It never stores a body: bodies contain texts of agents and people, and sometimes secrets.
create table resource.audit_log (
  audit_id bigint generated always as identity primary key,
  at timestamptz not null,
  actor text not null,
  role text,
  address text,
  method text not null,
  path text not null,
  status int not null,
  code text
);

-- The response to an Idempotency-Key. `inbox_id` is created with the row: a request that is repeated after a crash
-- enqueues with the same id, and the kernel recognises it.
create table resource.http_answers (
  project_id text not null,
  scope text not null,
  idempotency_key text not null,
  body_hash bytea not null,
  inbox_id text not null,
  status int,
  answer jsonb,
  created_at timestamptz not null,
  primary key (project_id, scope, idempotency_key),
  constraint answer_has_its_status check ((status is null) = (answer is null))
);
create index http_answers_age on resource.http_answers (created_at);
