-- Events with columns instead of JSON, and one row for the end of a turn (decision 0015). `state.outbox` stores the
-- rows; `state.events` becomes a view of the messages that readers get (verbs/events.sql).
lock table state.events in access exclusive mode;
alter table state.events rename to outbox;
alter table state.outbox
  alter column subject drop not null,
  alter column payload drop not null,
  add column channel_id text,
  add column agent_id text,
  add column status text,
  add column turn_epoch bigint,
  add column error text,
  add column traceparent text,
  add column output_box_id text,
  add column deliverable_card_id text;
comment on table state.outbox is
  'The outbox, as it is stored. A row without a subject is a move of a head, and readers build its messages.';
comment on column state.outbox.turn_epoch is
  'In a task event without a subject: the epoch of its second message, the state event idle.';

-- The end of a turn is one row with two messages: event_id is the task event, event_id + 1 the state event.
select setval('state.events_event_id_seq',
  coalesce(pg_sequence_last_value('state.events_event_id_seq'), 0) / 2 * 2 + 2);
alter sequence state.events_event_id_seq increment by 2;
