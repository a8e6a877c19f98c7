-- The session of a coding agent's program that a turn used last: a takeover, a retry and a follow-up resume it.
create table state.program_sessions (
  agent_turn_id text primary key,
  project_id text not null,
  agent_id text not null,
  -- The session of turns: later turns of the same agent with the same one resume the program's session.
  session_key text,
  program text not null,
  program_session_id text not null,
  -- The programs find a session only in the folder where it was made.
  folder text not null,
  -- Whether the turn resumed a session that an earlier turn had made.
  resumed boolean not null,
  -- Whether the program has answered the prompt of this turn: then its session contains the prompt.
  answered boolean not null,
  stored_at timestamptz not null
);
create index program_sessions_by_key on state.program_sessions (project_id, agent_id, session_key, stored_at)
  where session_key is not null;
comment on table state.program_sessions is
  'The session of a coding agent''s program per turn. Written under the fence when the program prints its id.';
