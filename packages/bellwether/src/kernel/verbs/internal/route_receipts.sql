-- Handles the pending rows of a claim that do not start a turn. The caller has locked the heads. A receipt settles one
-- wait of the current turn (T3.4a, T3.4b); the counter after the update decides which receipt is the last (hazard 5);
-- the ledger keeps the resume until a worker has applied it (W2.3). Repeated receipts and those of ended turns are
-- skipped (T8.2).
create or replace function state.route_receipts(p_inbox_ids text[], p_worker text, p_lease_seconds double precision)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_received text[];
  v_stopped text[];
begin
  v_received := array(
    select i.inbox_id from unnest(p_inbox_ids) x
    join state.agent_inbox i on i.inbox_id = x
    cross join lateral state.head(i.project_id, i.agent_id) h
    join state.turn_waiting_tools w on w.project_id = i.project_id and w.tool_call_id = i.correlation_id
    where i.message_type in ('tool_result', 'timeout') and h.status = 'suspended'
      and i.agent_turn_id = h.active_agent_turn_id and i.turn_epoch = h.turn_epoch
      and w.agent_turn_id = h.active_agent_turn_id and w.turn_epoch = h.turn_epoch and w.wait_status = 'waiting'
      and i.payload ->> 'tool_result_card_id' is not null);

  if v_received <> '{}' then
    with settled as (
      update state.turn_waiting_tools w set
        wait_status = case i.message_type when 'timeout' then 'expired' else 'received' end,
          tool_result_card_id = i.payload ->> 'tool_result_card_id',
        after_execution = coalesce(i.payload ->> 'after_execution', w.after_execution)
      from unnest(v_received) x join state.agent_inbox i on i.inbox_id = x
      where w.project_id = i.project_id and w.tool_call_id = i.correlation_id and w.wait_status = 'waiting'
      returning w.project_id, w.agent_id, w.agent_turn_id, w.turn_epoch, w.tool_call_id, w.tool_result_card_id
    ), ledgered as (
      insert into state.turn_resume_ledger (project_id, agent_turn_id, turn_epoch, tool_call_id, status,
        lease_expires_at, tries)
      select project_id, agent_turn_id, turn_epoch, tool_call_id, 'processing',
        v_now + make_interval(secs => p_lease_seconds), 1 from settled
    ), boxed as (
      insert into cards.box_cards (box_id, card_id)
      select h.output_box_id, s.tool_result_card_id from settled s
      cross join lateral state.head(s.project_id, s.agent_id) h
      where h.output_box_id is not null
    ), consumed as (
      update state.agent_inbox i set status = 'consumed', claimed_by = p_worker, processed_at = v_now,
        archived_at = v_now
      from unnest(v_received) x where i.inbox_id = x
    )
    update state.agent_state_head h set
      waiting_tool_count = h.waiting_tool_count - m.settled,
      resume_deadline = case when h.waiting_tool_count > m.settled
        then coalesce(h.resume_deadline, v_now + make_interval(secs => coalesce(h.resume_seconds, 30))) end,
      updated_at = v_now
    from (select s.project_id, s.agent_id, count(*)::int as settled from settled s group by 1, 2) m
    cross join lateral state.head_ctid(m.project_id, m.agent_id) as at (tid) where h.ctid = at.tid;

    return query
    select distinct on (h.project_id, h.agent_id) case when h.waiting_tool_count = 0 then 'resume' else 'received' end,
      h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, t.inbox_id, null::text, h.active_channel_id,
      jsonb_build_object('waiting_tool_count', h.waiting_tool_count)
    from unnest(v_received) x join state.agent_inbox i on i.inbox_id = x
    cross join lateral state.head(i.project_id, i.agent_id) h
    join state.agent_inbox t on t.agent_turn_id = h.active_agent_turn_id and t.message_type in ('turn', 'ui_action');
  end if;

  v_stopped := array(
    select i.inbox_id from unnest(p_inbox_ids) x join state.agent_inbox i on i.inbox_id = x
    where i.message_type = 'stop' and i.status = 'pending' and i.agent_turn_id is not null);
  if v_stopped <> '{}' then
    update state.agent_inbox i set status = 'consumed', claimed_by = p_worker, processed_at = v_now, archived_at = v_now
    from unnest(v_stopped) x where i.inbox_id = x;
    return query select s.* from (
      select array_agg(i.agent_turn_id) as turns, array_agg(md5(i.inbox_id)::uuid::text) as card_ids,
        array_agg(left(i.payload ->> 'stopped_by', 200)) as stopped_by, array_agg(i.payload ->> 'reason') as reasons
      from unnest(v_stopped) x join state.agent_inbox i on i.inbox_id = x) x
    cross join lateral state.stop_turns(x.turns, x.card_ids, x.stopped_by, x.reasons) s;
  end if;

  -- The remaining rows are refused: a row without a turn is a protocol error, a late receipt is skipped.
  return query
  update state.agent_inbox i set
    status = case when i.message_type in ('tool_result', 'timeout') and i.agent_turn_id is not null
      and i.turn_epoch is not null then 'skipped' else 'error' end,
    error = case when i.agent_turn_id is null then 'protocol_error: no agent_turn_id'
      when i.turn_epoch is null then 'protocol_error: no turn_epoch'
      when i.message_type in ('tool_result', 'timeout') then 'not waited for'
      else 'protocol_error: not the turn and epoch of this agent' end,
    processed_at = v_now, archived_at = v_now
  from unnest(p_inbox_ids) x where i.inbox_id = x and i.status = 'pending'
  returning 'refused', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, i.inbox_id, null::text, i.channel_id,
    jsonb_build_object('message_type', i.message_type, 'error', i.error);
end $$;
