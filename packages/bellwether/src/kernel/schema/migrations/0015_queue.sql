-- Rows that wait are listed in a narrow table (decision 0015). No index of the inbox names a column that changes during
-- a turn any more, so the updates of an inbox row are HOT.
create table state.queue (
  project_id text not null,
  agent_id text not null,
  worker_target text not null,
  status state.inbox_status not null,
  -- The transaction that made the row pending; 0 for a row that returned to pending or changed its worker target.
  pending_xid xid8,
  created_at timestamptz not null,
  inbox_id text not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
comment on table state.queue is
  'One row per inbox row that waits: queued for its agent, or pending for a worker. A claim deletes it.';
create index queue_queued on state.queue (project_id, agent_id, created_at, inbox_id) where status = 'queued';
create index queue_pending on state.queue (worker_target, pending_xid, created_at, inbox_id) where status = 'pending';
create index queue_processing on state.queue (worker_target, inbox_id) where status = 'processing';

alter table state.agent_inbox alter column pending_xid drop default;
update state.agent_inbox set pending_xid = case when status = 'pending' then coalesce(pending_xid, '0') end
where pending_xid is not null or status = 'pending';
alter table state.agent_inbox add column in_queue boolean not null default false;
comment on column state.agent_inbox.in_queue is
  'Whether state.queue has a row for this one. A statement that keeps both writes it; for others, a trigger does.';
comment on column state.agent_inbox.pending_xid is
  'Of a pending row: the same as in state.queue.';
-- Processing rows of turns that no head runs were written by another program: only the queue lists them.
update state.agent_inbox i set in_queue = true
where i.status in ('queued', 'pending') or i.status = 'processing' and not exists (
  select from state.agent_state_head h where h.active_agent_turn_id = i.agent_turn_id
    and h.project_id = i.project_id and h.agent_id = i.agent_id);
insert into state.queue (project_id, agent_id, worker_target, status, pending_xid, created_at, inbox_id)
select i.project_id, i.agent_id, i.worker_target, i.status, i.pending_xid, i.created_at, i.inbox_id
from state.agent_inbox i where i.in_queue;
drop index state.inbox_queued, state.inbox_pending, state.inbox_processing;
drop trigger if exists returning_rows_go_first on state.agent_inbox;
drop function if exists state.put_first();
