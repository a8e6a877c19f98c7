-- The only way a turn ends: deliverable in the output box, task and state events, inbox row settled with the outcome,
-- head idle, in one transaction; then the next queued turn is leased (T3.5, T4.1). Used by deliver, stop, cancel and
-- reap. The caller has locked the heads, checked the fence and decided. An ending whose turn is not the head's active
-- turn cancels a queued turn and leaves the head unchanged. If the turn did not succeed, its deliverable is a fallback.
-- p_brief: one verdict 'all_ended' instead of one per ending, because building and sending a verdict costs as much as
-- writing a row.
create or replace function state.finish_turn_idle(p_endings state.ending[], p_brief boolean default false)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_suspended text[];
  v_holding text[];
  v_done state.verdict[];
  v_next boolean;
  v_moved boolean;
  v_forced boolean;
  v_failed boolean;
  v_terminations state.force_terminations[];
begin
  select array_agg(e.agent_turn_id) filter (where e.was_suspended), array_agg(e.agent_turn_id) filter (where e.holds),
    bool_or(e.force_reason is not null), bool_or(e.outcome <> 'success')
  into v_suspended, v_holding, v_forced, v_failed from unnest(p_endings) e;
  -- The waits and receipts of a suspended turn are dropped.
  if v_suspended is not null then
    update state.agent_inbox i set status = 'skipped', processed_at = v_now
    from unnest(v_suspended) t where i.agent_turn_id = t and i.status = 'pending'
      and i.message_type in ('tool_result', 'timeout');
    update state.turn_waiting_tools w
    set wait_status = case w.wait_status when 'waiting' then 'dropped' else 'applied' end
    from unnest(v_suspended) t where w.agent_turn_id = t and w.wait_status in ('waiting', 'received');
    update state.turn_resume_ledger l set status = 'applied', lease_expires_at = null
    from unnest(v_suspended) t where l.agent_turn_id = t and l.status in ('pending', 'processing');
  end if;
  -- Cancels the turn's batches and settles its budget (hazards 17 and 18).
  if v_holding is not null then
    perform state.settle_holdings(v_holding);
  end if;
  if v_failed then
    p_endings := state.with_fallbacks(p_endings);
  end if;

  with ended as materialized (
    select e.*, h.tid, i.tid as inbox_tid, i.inbox_id, i.traceparent,
      h.active_agent_turn_id = e.agent_turn_id is true as active,
      coalesce(case when h.active_agent_turn_id = e.agent_turn_id
        then h.active_channel_id end, i.channel_id, 'public') as channel_id,
      coalesce(case when h.active_agent_turn_id = e.agent_turn_id then h.turn_epoch end, i.turn_epoch) as epoch,
      coalesce(case when h.active_agent_turn_id is distinct from e.agent_turn_id
        then i.payload ->> 'output_box_id' end, h.output_box_id) as output_box_id,
      exists (select from state.queue q where q.project_id = h.project_id and q.agent_id = h.agent_id
        and q.status = 'queued' and q.created_at >= coalesce(h.queued_since, '-infinity') offset 0) as next
    from unnest(p_endings) e
    cross join lateral (select h.ctid as tid, h.* from state.agent_state_head h
      where h.ctid = coalesce(e.head_tid, (select t from state.head_ctid(e.project_id, e.agent_id) t)) offset 0) h
    left join lateral (select i.ctid as tid, i.* from state.agent_inbox i
      where i.agent_turn_id = e.agent_turn_id and i.message_type in ('turn', 'ui_action') offset 0) i on true
  ), card as (
    insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
    select card_id, project_id, 'task.deliverable', 'assistant', content,
      case when outcome = 'success'
        then jsonb_build_object('agent_id', agent_id, 'agent_turn_id', agent_turn_id, 'status', outcome)
        else jsonb_build_object('agent_id', agent_id, 'agent_turn_id', agent_turn_id, 'status', outcome,
          'kind', 'fallback') end, v_now
    from ended where output_box_id is not null
  ), boxed as (
    insert into cards.box_cards (box_id, card_id)
    select output_box_id, card_id from ended where output_box_id is not null
  ), settled as (
    update state.agent_inbox i set
      status = case when d.active then 'consumed' else 'cancelled' end, outcome = d.outcome, error = d.error,
        ended_at = v_now,
      processed_at = v_now, archived_at = v_now,
      deliverable_card_id = case when d.output_box_id is not null then d.card_id end,
      -- The row gets the new epoch too, so that a worker with the old fence sees 'stale' and not 'already' (hazard 12).
      turn_epoch = case when d.active then d.epoch + d.bump_epoch::int else i.turn_epoch end
    -- The head's lock covers the inbox rows of its agent.
    from ended d where i.ctid = d.inbox_tid
    returning 1
  ), announced as (
    -- One row with two messages, the task event and the state event; a turn that was never leased has only the first.
    insert into state.outbox (project_id, channel_id, agent_id, kind, status, agent_turn_id, turn_epoch, traceparent,
      error, output_box_id, deliverable_card_id, payload, created_at)
    select d.project_id, d.channel_id, d.agent_id, 'task', d.outcome, d.agent_turn_id,
      case when d.active then d.epoch + d.bump_epoch::int end, d.traceparent, d.error, d.output_box_id,
      case when d.output_box_id is not null then d.card_id end,
      case when d.error = 'budget_exceeded' then state.stopped_by(d.agent_turn_id) end, v_now
    from ended d
  ), idled as (
    update state.agent_state_head h set
      status = 'idle', turn_epoch = h.turn_epoch
        + ((h.ctid in (select d.tid from ended d where d.bump_epoch)) is true)::int,
      active_agent_turn_id = null, active_channel_id = null,
      active_recursion_depth = 0, parent_step_id = null, trace_id = null, expecting_correlation_id = null,
        waiting_tool_count = 0,
      output_box_id = coalesce(h.home_box_id, h.output_box_id), resume_deadline = null, resume_seconds = null,
        turn_deadline = null, leased_at = null, activity = null, current_tool = null, holds = false,
      updated_at = v_now
    -- An array of positions is one scan; a join would start a scan per row.
    where h.ctid = any (array(select d.tid from ended d where d.active))
  )
  select case when p_brief then array[row('all_ended', null, null, null, null, null, null, null, null)::state.verdict]
      else (select array_agg(row('ended', e.project_id, e.agent_id, e.agent_turn_id,
        e.epoch + (e.active and e.bump_epoch)::int, e.inbox_id, null, null, null)::state.verdict) from ended e) end,
    case when v_forced then (
      select array_agg(row(e.agent_turn_id, e.epoch, e.force_reason, v_now)::state.force_terminations) from ended e
      where e.force_reason is not null) end,
    bool_or(d.next), (select count(*) from settled) < count(d.inbox_tid)
  into v_done, v_terminations, v_next, v_moved from ended d;
  if v_moved then
    perform state.raise_conflict();
  end if;
  if v_forced then
    insert into state.force_terminations select * from unnest(v_terminations) on conflict do nothing;
  end if;
  return query select * from unnest(v_done);

  if v_next then
    return query select * from state.dispatch_next(
      array(select e.project_id from unnest(p_endings) e), array(select e.agent_id from unnest(p_endings) e));
  end if;
end $$;
