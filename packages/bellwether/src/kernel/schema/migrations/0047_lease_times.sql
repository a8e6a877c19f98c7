-- The waterfall of a turn shows its leases. The first one is a column of the inbox row, written in statements that
-- write the row anyway. Later ones, after a reclaim or a suspension, are events of the outbox: the index lists the
-- events that name one turn, which a turn that is leased once and ends has none of.
alter table state.agent_inbox add column leased_at timestamptz;
comment on column state.agent_inbox.leased_at is
  'When the turn was first leased. Null: it was not leased, or by an earlier version.';
create index outbox_moves on state.outbox (agent_turn_id)
  where kind = 'state' and agent_turn_id is not null and status is distinct from 'dispatched';
