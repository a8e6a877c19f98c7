-- Who may ask over HTTP, who did what, and what was answered to a request that may come again.

create table resource.api_keys (
  key_id text primary key,
  name text not null,
  role text not null,
  -- A key that names a view or a project reaches only what it names.
  view_name text,
  project_id text,
  -- SHA-256 of 256 random bits: nothing that can be guessed stands behind it, so it needs no salt and no slow hash.
  hash bytea not null,
  -- After a rotation with grace both keys open the door for a while.
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

-- Who did what. Never a body: bodies hold what agents and people say, and sometimes secrets.
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

-- What was answered to an Idempotency-Key. `inbox_id` is minted with the row: a request that comes again after a crash
-- enqueues under the same id, and the kernel knows it.
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
