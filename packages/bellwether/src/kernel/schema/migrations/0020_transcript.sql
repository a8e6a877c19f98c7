-- What an agent says and does in a turn, stored as it happens (T9.2, decision 0016).
create table state.transcript (
  agent_turn_id text not null,
  seq int not null,
  turn_epoch bigint not null,
  -- The number that the writer gave the entry: a random session in the upper half, a counter in the lower half.
  entry_key bigint not null,
  -- The bytes up to and including this entry: its content, 64 per entry, and everything that was left out before it.
  total_bytes bigint not null,
  created_at timestamptz not null,
  kind text not null constraint transcript_kind_is_known check (kind in ('text', 'thought', 'tool_call', 'tool_result',
    'stdout', 'stderr', 'question', 'answer', 'note')),
  -- Whether the content continues the entry before it without a break.
  continued boolean not null,
  call_id text,
  name text,
  content text not null,
  primary key (agent_turn_id, seq)
);
comment on table state.transcript is
  'What the agent of a turn wrote and did, in order. Rows do not change. A gap in seq: entries were left out.';
create trigger transcript_is_insert_only before update on state.transcript
  for each row execute function state.refuse_rewrite();
