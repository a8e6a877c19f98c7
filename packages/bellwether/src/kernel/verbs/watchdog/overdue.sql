-- Looks once at all heads that are awake, for every rule of a guard step: a look at a healthy head costs 0.3 µs, so a
-- fleet of 100,000 agents pays 30 ms for each rule that looks alone. tids: the active turns that may be overdue;
-- unstarted: whether retry_dispatched has work; idle: whether mark_idle_agents has.
create or replace function state.silent_heads(p_now timestamptz, p_settings json,
  out tids tid[], out unstarted boolean, out idle boolean)
language plpgsql stable as $$
declare
  s record;
  v_quiet timestamptz;
  v_unstarted timestamptz;
  v_idle timestamptz;
  v_any timestamptz;
begin
  select * into s from json_to_record(p_settings) as x (dispatched_timeout_seconds double precision,
    active_reap_seconds double precision, suspended_reap_seconds double precision,
    inbox_processing_timeout_seconds double precision, dispatched_retry_seconds double precision,
    idle_seconds double precision);
  -- The bounds are computed once: a healthy head costs one comparison.
  v_quiet := p_now - make_interval(secs => least(s.dispatched_timeout_seconds, s.active_reap_seconds,
    s.suspended_reap_seconds, s.inbox_processing_timeout_seconds));
  v_unstarted := p_now - make_interval(secs => s.dispatched_retry_seconds);
  v_idle := p_now - make_interval(secs => s.idle_seconds);
  v_any := greatest(v_quiet, v_unstarted, v_idle);
  select array_agg(h.ctid) filter (where h.active_agent_turn_id is not null
      and (h.updated_at < v_quiet or h.turn_deadline < p_now)),
    coalesce(bool_or(h.status = 'dispatched' and h.updated_at < v_unstarted), false),
    coalesce(bool_or(h.status = 'idle' and h.updated_at < v_idle), false)
  into tids, unstarted, idle from state.agent_state_head h
  where h.awake and (h.updated_at < v_any or h.turn_deadline < p_now);
end $$;

-- Finds overdue turns among the silent heads, one rule per branch; reads only. Silence counts from the last sign of
-- life, and never from before the watch window (W2.10): after an absence the watchdog ends nothing until one full
-- timeout has passed. A target without live workers keeps its turns up to max_queue_seconds; a worker that is back has
-- a full timeout to take them.
create or replace function state.overdue(p_now timestamptz, p_settings json, p_tids tid[], p_limit int)
returns setof state.overdue language plpgsql stable as $$
#variable_conflict use_column
declare
  s record;
  v_live timestamptz;
begin
  select * into s from json_to_record(p_settings) as x (dispatched_timeout_seconds double precision,
    max_queue_seconds double precision, active_reap_seconds double precision, suspended_reap_seconds double precision,
    inbox_processing_timeout_seconds double precision, max_deaths int, watching_since timestamptz);
  -- A worker that was seen after this time is live: workers sign in three times as often.
  v_live := p_now - make_interval(secs => s.dispatched_timeout_seconds / 2);

  return query
  with targets as materialized (
    -- claimed_at: the last claim, or the last sign of life of a full worker. Until then the queue moved (hazard 6).
    select w.worker_target, min(coalesce(w.live_since, w.started_at)) filter (where w.seen_at > v_live) as live_since,
      max(greatest(w.last_claim_at, case when w.free <= 0 and w.concurrency > 0 then w.seen_at end)) as claimed_at
    from state.workers w group by 1
  )
  select h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, h.status, h.updated_at, r.outcome, r.error
  from unnest(p_tids) as at (tid)
  cross join lateral (select * from state.agent_state_head h where h.ctid = at.tid offset 0) h
  left join targets t on t.worker_target = h.worker_target
  cross join lateral (
    -- W2.9: the absolute deadline of a turn, which beats do not extend. It does not pass while the turn is parked.
    select 'timeout' as outcome, 'turn_deadline' as error
    where h.turn_deadline < p_now
      and not (h.status = 'suspended' and h.leased_at > p_now - state.parked_max()
        and exists (select from state.parked_turns p where p.agent_turn_id = h.active_agent_turn_id))
      and p_now - s.watching_since > least(h.turn_deadline - h.leased_at, make_interval(secs => s.active_reap_seconds))
    union all
    -- W2.5: live workers of the turn's target have room and do not start the turn.
    select 'timeout', 'dispatch_timeout'
    where h.status = 'dispatched'
      and p_now - greatest(h.updated_at, s.watching_since) > make_interval(secs => s.dispatched_timeout_seconds)
      and (p_now - h.updated_at > make_interval(secs => s.max_queue_seconds)
        or p_now - greatest(t.live_since, t.claimed_at) > make_interval(secs => s.dispatched_timeout_seconds)
          and t.live_since is not null)
    union all
    -- W2.6: the turn's worker stopped beating, and no live worker takes the turn over.
    select 'failed', 'timeout_reaped_by_watchdog'
    where h.status = 'running'
      and p_now - greatest(h.updated_at, s.watching_since) > make_interval(secs => s.active_reap_seconds)
      and (p_now - h.updated_at > make_interval(secs => s.max_queue_seconds)
        or p_now - t.live_since > make_interval(secs => s.active_reap_seconds)
          -- A reclaimed turn waits in the queue like any other.
          and not (p_now - t.claimed_at <= make_interval(secs => s.active_reap_seconds) is true
            and exists (select from state.turn_row(h.active_agent_turn_id) i where i.status = 'pending')))
    union all
    -- W2.1: the turn was charged with the maximum number of deaths.
    select 'failed', 'max_deaths'
    where h.status = 'running'
      and p_now - greatest(h.updated_at, s.watching_since) > make_interval(secs => s.inbox_processing_timeout_seconds)
      and exists (select from state.agent_inbox i where i.agent_turn_id = h.active_agent_turn_id
        and i.message_type in ('turn', 'ui_action')
        and i.status = 'processing' and i.deaths >= s.max_deaths offset 0)
    union all
    -- W2.2f: it waits without a deadline ahead, and no worker claims its receipts, if there are any.
    select 'failed', 'suspended_unresumable'
    where h.status = 'suspended'
      and p_now - greatest(h.updated_at, s.watching_since,
        h.resume_deadline, t.live_since) > make_interval(secs => s.suspended_reap_seconds)
      and (p_now - h.updated_at > make_interval(secs => s.max_queue_seconds)
        or t.live_since is not null and (
          not (h.waiting_tool_count = 0 or exists (select from state.agent_inbox r
            where r.agent_turn_id = h.active_agent_turn_id
            and r.message_type in ('tool_result', 'timeout') and r.status = 'pending' offset 0))
          or coalesce(p_now - t.claimed_at > make_interval(secs => s.suspended_reap_seconds), true)))
    limit 1
  ) r
  limit p_limit;
end $$;
