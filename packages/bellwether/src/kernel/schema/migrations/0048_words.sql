-- Which words occur in which ended turns, so that a search skips the turns that cannot match. One row per 128 to 255
-- turns, because neighbours share most of their words. The PMO writes it behind the turns (verbs/words): no turn waits.
create table state.word_blocks (
  block_id bigint generated always as identity primary key,
  project_id text not null,
  -- The lowest and the highest id of its turns.
  first_turn text not null,
  last_turn text not null,
  turns text[] not null,
  ended_at timestamptz not null,
  -- Null: more words than a value can hold. Every search reads such a block.
  words tsvector
);
create index word_blocks_by_turn on state.word_blocks (project_id, last_turn, first_turn);
comment on table state.word_blocks is 'The words of ended turns in blocks, written by the PMO.';

-- How far the outbox is read. Its lock makes one PMO write blocks at a time.
create table state.word_progress (
  one boolean primary key default true check (one),
  xid xid8 not null,
  event_id bigint not null
);
comment on table state.word_progress is 'The position in the outbox up to which ended turns are in state.word_blocks.';
insert into state.word_progress (xid, event_id) values ('0', 0);
