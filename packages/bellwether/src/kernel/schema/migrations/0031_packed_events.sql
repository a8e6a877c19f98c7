-- The leases and the starts of a batch are few rows of the outbox (decision 0015). A row may have up to 16 messages,
-- whose ids are consecutive, so the ids of rows count by 16.
alter table state.outbox
  add column agent_ids text[],
  add column agent_turn_ids text[],
  add column turn_epochs bigint[],
  add column traceparents text[];
comment on column state.outbox.agent_turn_ids is
  'The row stands for one state event per turn of this list; their ids are event_id, event_id + 1, …';
select setval('state.events_event_id_seq',
  (coalesce(pg_sequence_last_value('state.events_event_id_seq'), 0) / 16 + 1) * 16);
alter sequence state.events_event_id_seq increment by 16;
-- The functions that build messages get other parameters.
drop view if exists state.events;
drop function if exists state.event_subject(state.outbox, text);
drop function if exists state.state_payload(state.outbox, text);
drop function if exists state.has_second_message(state.outbox);

-- Enqueue looks for agents that are retired; usually there are few.
create index agents_retired on resource.project_agents (project_id, agent_id) where status = 'retired';
