-- Finds overdue turns, one rule per branch; reads only. Silence counts from the last sign of life, and never from
-- before the watch window (W2.10): after an absence the watchdog ends nothing until one full timeout has passed.
create or replace function state.overdue(p_now timestamptz, p_settings json, p_limit int)
returns setof state.overdue language plpgsql stable as $$
#variable_conflict use_column
declare
  s record;
  v_quiet timestamptz;
begin
  select * into s from json_to_record(p_settings) as x (dispatched_timeout_seconds double precision,
    max_queue_seconds double precision, active_reap_seconds double precision, suspended_reap_seconds double precision,
    inbox_processing_timeout_seconds double precision, max_attempts int, watching_since timestamptz);
  -- A cheap bound for all rules, computed once: a healthy head costs one comparison.
  v_quiet := p_now - make_interval(secs => least(s.dispatched_timeout_seconds, s.active_reap_seconds,
    s.suspended_reap_seconds, s.inbox_processing_timeout_seconds));

  return query
  select h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, h.status, h.updated_at, r.outcome, r.error
  from state.agent_state_head h
  cross join lateral (
    -- W2.9: the absolute deadline of a turn, which beats do not extend.
    select 'timeout' as outcome, 'turn_deadline' as error
    where h.turn_deadline < p_now
      and p_now - s.watching_since > least(h.turn_deadline - h.leased_at, make_interval(secs => s.active_reap_seconds))
    union all
    -- W2.5: no worker started it. While workers of its target claim turns, or are full and alive, the queue is long and
    -- not dead (hazard 6).
    select 'timeout', 'dispatch_timeout'
    where h.status = 'dispatched'
      and p_now - greatest(h.updated_at, s.watching_since) > make_interval(secs => s.dispatched_timeout_seconds)
      and (p_now - h.updated_at > make_interval(secs => s.max_queue_seconds)
        or p_now - coalesce((
          select max(greatest(w.last_claim_at, case when w.free <= 0 and w.concurrency > 0 then w.seen_at end))
          from state.workers w where w.worker_target = h.worker_target), '-infinity')
          > make_interval(secs => s.dispatched_timeout_seconds))
    union all
    -- W2.6: started, and its worker stopped beating.
    select 'failed', 'timeout_reaped_by_watchdog'
    where h.status = 'running'
      and p_now - greatest(h.updated_at, s.watching_since) > make_interval(secs => s.active_reap_seconds)
    union all
    -- W2.1: taken over as often as allowed, and its worker is silent again.
    select 'failed', 'max_attempts'
    where h.status = 'running'
      and p_now - greatest(h.updated_at, s.watching_since) > make_interval(secs => s.inbox_processing_timeout_seconds)
      and exists (select from state.agent_inbox i where i.agent_turn_id = h.active_agent_turn_id
        and i.message_type in ('turn', 'ui_action')
        and i.status = 'processing' and i.attempts + 1 >= s.max_attempts offset 0)
    union all
    -- W2.2f: it waits without a deadline ahead, and no worker claims its receipts, if there are any.
    select 'failed', 'suspended_unresumable'
    where h.status = 'suspended'
      and p_now - greatest(h.updated_at, s.watching_since,
        h.resume_deadline) > make_interval(secs => s.suspended_reap_seconds)
      and (p_now - h.updated_at > make_interval(secs => s.max_queue_seconds)
        or not (h.waiting_tool_count = 0 or exists (select from state.agent_inbox r
          where r.agent_turn_id = h.active_agent_turn_id
          and r.message_type in ('tool_result', 'timeout') and r.status = 'pending' offset 0))
        or p_now - coalesce((
          select max(greatest(w.last_claim_at, case when w.free <= 0 and w.concurrency > 0 then w.seen_at end))
          from state.workers w where w.worker_target = h.worker_target), '-infinity')
          > make_interval(secs => s.suspended_reap_seconds))
    limit 1
  ) r
  where h.active_agent_turn_id is not null
    and (h.updated_at < v_quiet or h.turn_deadline < p_now)
  limit p_limit;
end $$;
