-- Messages to people: one row per message and channel, written before it is sent, so that a restart neither loses a
-- message nor sends it to a channel that has it.
create table state.notices (
  -- Says what the message is about: the same need has the same id.
  notice_id text not null,
  channel text not null,
  kind text not null,
  project_id text,
  content jsonb not null,
  created_at timestamptz not null,
  -- When the next try is due. Null: sent, given up, or not needed any more.
  next_try_at timestamptz,
  tries int not null default 0,
  sent_at timestamptz,
  error text,
  -- The call of a question that has no end yet.
  open_tool_call_id text,
  primary key (notice_id, channel),
  constraint sent_is_not_retried check (sent_at is null or next_try_at is null)
);
create index notices_to_send on state.notices (next_try_at) where next_try_at is not null;
create index notices_of_open_questions on state.notices (project_id, open_tool_call_id)
  where open_tool_call_id is not null;
create index notices_by_age on state.notices (created_at);
comment on table state.notices is
  'Messages to people and what became of them, per channel. A PMO claims a row, sends the message and records the end.';
