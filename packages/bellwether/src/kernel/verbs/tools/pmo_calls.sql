-- The calls of tools that the PMO hosts (T3.3e): it reads the calls that wait for it, then answers each with a receipt
-- or takes it with the batch that answers it.

-- Calls that no PMO has taken, oldest first, with their arguments.
create or replace function state.pmo_calls(p_limit int)
returns table (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, step_id text, tool_call_id text,
  pmo_tool text, arguments jsonb) language sql as $$
  select w.project_id, w.agent_id, w.agent_turn_id, w.turn_epoch, w.step_id, w.tool_call_id, w.pmo_tool,
    c.content -> 'arguments'
  from state.turn_waiting_tools w
  cross join lateral state.head(w.project_id, w.agent_id) h
  left join cards.cards c on c.card_id = w.tool_call_card_id
  where w.pmo_tool is not null and w.wait_status = 'waiting' and w.started_by is null
    and w.approval is distinct from 'waiting'
    and h.status = 'suspended' and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch
    and not exists (select from state.agent_inbox r where r.agent_turn_id = w.agent_turn_id
      and r.correlation_id = w.tool_call_id and r.message_type in ('tool_result', 'timeout') offset 0)
  order by w.wait_seq limit p_limit
$$;

-- A PMO takes a call and creates its batch in the same transaction, so that no crash leaves a call without one. The
-- wait lasts as long as the batch (hazard 17). 'gone': another PMO has taken the call, or no turn waits for it.
create or replace function state.take_call(p_project_id text, p_tool_call_id text, p_agent_turn_id text,
  p_turn_epoch bigint, p_host text, p_seconds double precision, p_fork json)
returns table (what text) language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  perform from state.agent_state_head h
  join state.turn_waiting_tools w on w.project_id = h.project_id and w.agent_id = h.agent_id
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id
  for no key update of h;
  v_now := state.now();

  update state.turn_waiting_tools w set started_by = p_host, started_at = v_now
  from state.agent_state_head h
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id and w.wait_status = 'waiting'
    and w.approval is distinct from 'waiting'
    and w.started_by is null and w.agent_turn_id = p_agent_turn_id and w.turn_epoch = p_turn_epoch
    and h.project_id = w.project_id and h.agent_id = w.agent_id and h.status = 'suspended'
    and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch
    and not exists (select from state.agent_inbox r where r.agent_turn_id = w.agent_turn_id
      and r.correlation_id = w.tool_call_id and r.message_type in ('tool_result', 'timeout') offset 0);
  if not found then
    return query select 'gone';
    return;
  end if;

  update state.agent_state_head h set resume_seconds = greatest(h.resume_seconds, p_seconds),
    resume_deadline = case when h.resume_deadline is not null
      then greatest(h.resume_deadline, v_now + make_interval(secs => p_seconds)) end
  from state.turn_waiting_tools w where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id
    and h.project_id = w.project_id and h.agent_id = w.agent_id;
  perform state.open_batches(p_fork);
  return query select 'taken';
end $$;
