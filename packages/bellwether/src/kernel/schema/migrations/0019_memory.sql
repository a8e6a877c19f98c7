-- What a turn of an agent knows besides its context box and its own cards (T9.3): nothing, the earlier turns of its
-- session, or the agent's box. Existing agents start with nothing; their cards stay in their boxes.
alter table resource.project_agents
  add column memory text not null default 'none',
  add constraint memory_is_known check (memory in ('none', 'session', 'box'));
-- The caller of a batch that clones an agent wants the copy to know what the original knows.
update resource.project_agents a set memory = 'box'
from state.batch_tasks t join state.batches b on b.batch_id = t.batch_id
where b.project_id = a.project_id and t.agent_id = a.agent_id and t.target_strategy = 'clone';

-- The turns of a session, newest last.
create index inbox_session on state.agent_inbox (project_id, agent_id, (payload ->> 'session_id'), created_at, inbox_id)
  where payload ->> 'session_id' is not null;

-- How much of its memory a turn read at its start. Turns of agents without memory have no row.
create table state.turn_memories (
  agent_turn_id text primary key,
  memory text not null,
  cards int not null,
  bytes bigint not null,
  truncated boolean not null,
  constraint turn_memory_is_known check (memory in ('session', 'box'))
);
comment on table state.turn_memories is
  'How much a turn read of earlier turns, for agents with memory; written by its first read.';
