-- Leases the oldest queued turn of each idle agent; its row goes queued → pending with the epoch (T3.1b). The caller
-- has locked the heads in an earlier statement, so this statement sees every row committed before the lock. A head
-- whose output box is in use by another active turn stays idle; the sweep of queued rows returns to it (T5.3).
create or replace function state.dispatch_next(p_projects text[], p_agents text[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_leases state.leasing[];
begin
  -- Queues first: most agents have none, and then nothing else is read.
  with queued as materialized (
    select q.* from unnest(p_projects, p_agents) as a (project_id, agent_id)
    cross join lateral state.head(a.project_id, a.agent_id) h
    cross join lateral (
      select q.ctid as queue_tid, i.project_id, i.agent_id, i.inbox_id, i.agent_turn_id, i.channel_id,
        i.recursion_depth, i.parent_step_id, i.traceparent, i.payload, i.created_at
      from state.queue q cross join lateral state.inbox_row(q.inbox_id) i
      where q.project_id = h.project_id and q.agent_id = h.agent_id and q.status = 'queued'
        and q.created_at >= coalesce(h.queued_since, '-infinity') and i.agent_turn_id is not null
        and i.status = 'queued'
      order by q.created_at, q.inbox_id limit 1
    ) q
  ), chosen as materialized (
    select distinct on (coalesce(b.box_id, h.project_id || '/' || h.agent_id))
      h.project_id, h.agent_id, h.turn_epoch + 1 as epoch, q.queue_tid, q.inbox_id, q.agent_turn_id, q.channel_id,
        q.recursion_depth, q.parent_step_id, q.created_at,
      q.traceparent, q.payload ->> 'context_box_id' as context_box_id, b.box_id, q.payload ? 'budget_id' as holds
    from queued q
    cross join lateral state.head(q.project_id, q.agent_id) h
    cross join lateral (select coalesce(q.payload ->> 'output_box_id', h.output_box_id) as box_id) b
    where h.status = 'idle' and case when b.box_id is not distinct from h.home_box_id
          then not exists (select from state.borrowed_boxes o where o.box_id = b.box_id offset 0)
          else state.may_borrow_box(b.box_id) end
    order by coalesce(b.box_id, h.project_id || '/' || h.agent_id)
  ), promoted as (
    -- The head's lock covers its queue: the chosen row is still queued.
    update state.agent_inbox i set status = 'pending', turn_epoch = c.epoch, pending_xid = pg_current_xact_id(),
      leased_at = state.now()
    from chosen c where i.inbox_id = c.inbox_id
  ), listed as (
    update state.queue q set status = 'pending', pending_xid = pg_current_xact_id()
    from chosen c where q.ctid = c.queue_tid
  )
  select array_agg(row(c.project_id, c.agent_id, c.agent_turn_id, c.inbox_id, c.channel_id, c.recursion_depth,
    c.parent_step_id, c.traceparent, c.context_box_id, c.box_id, null, c.holds,
    c.created_at, at.tid)::state.leasing) into v_leases
    from chosen c cross join lateral state.head_ctid(c.project_id, c.agent_id) as at (tid);

  if v_leases is not null then
    return query select * from state.lease(v_leases);
  end if;
end $$;
