-- The positions from which queues are read, so that claims and leases do not pass the dead entries of earlier turns
-- (decision 0014).

-- The transaction that made the row pending. A row that returned to pending or changed its target has '0' and is first.
alter table state.agent_inbox add column pending_xid xid8;
alter table state.agent_inbox alter column pending_xid set default pg_current_xact_id();
update state.agent_inbox set pending_xid = '0' where status in ('queued', 'pending');
comment on column state.agent_inbox.pending_xid is
  'The transaction that made the row pending; 0 for a row that returned to pending or changed its worker target.';
drop index state.inbox_pending;
create index inbox_pending on state.agent_inbox (worker_target, pending_xid, created_at, inbox_id)
  where status = 'pending';

alter table state.agent_state_head add column queued_since timestamptz;
comment on column state.agent_state_head.queued_since is
  'No row in the queue of the agent is older. Null: unknown.';
alter type state.leasing add attribute queued_since timestamptz;
