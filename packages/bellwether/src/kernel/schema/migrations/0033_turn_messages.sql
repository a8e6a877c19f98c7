-- Messages of people and programs to a turn that has not ended. The agent gets each of them once and in order; a
-- message that an agent got is also a card in the output box of the turn.
create table state.turn_messages (
  agent_turn_id text not null,
  seq int not null,
  -- The id that the caller gave the message: a repeated request stores it once.
  message_id text not null,
  said_by text not null,
  content text not null,
  -- A program that reads no messages while it runs is interrupted for it.
  urgent boolean not null,
  created_at timestamptz not null,
  -- Null: the message waits, or the turn ended before the agent got it.
  delivered_at timestamptz,
  primary key (agent_turn_id, seq),
  constraint message_is_stored_once unique (agent_turn_id, message_id)
);
create index turn_messages_waiting on state.turn_messages (agent_turn_id) where delivered_at is null;
comment on table state.turn_messages is
  'Messages to turns, in order, with who sent them and when the agent got them. The content does not change.';

-- The last message that the session of a program contains for certain.
alter table state.program_sessions add column messages_seen int not null default 0;
