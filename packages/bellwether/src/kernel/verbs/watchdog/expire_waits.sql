-- W2.2: a turn is suspended past its resume_deadline. Each open wait gets one timeout receipt in the inbox, the
-- deadline is cleared, and the turn stays suspended. The normal path applies the receipt; nothing ends here (W2.2b).

-- The waits that are due for a target, read without a lock. A wait without its tool.call card is not listed (W2.2d). A
-- turn without any listed wait appears once with a null call, so that its deadline is cleared and the PMO can end it
-- (W2.2f).
create or replace function state.due_waits(p_target text, p_watching_since timestamptz, p_limit int)
returns table (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, tool_call_id text)
language sql volatile as $$
  select h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, w.tool_call_id
  from state.agent_state_head h
  left join lateral (
    select w.tool_call_id from state.turn_waiting_tools w
    join cards.cards c on c.card_id = w.tool_call_card_id
    where w.agent_turn_id = h.active_agent_turn_id and w.turn_epoch = h.turn_epoch and w.wait_status = 'waiting'
      and not exists (select from state.agent_inbox r
        where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
        and r.message_type in ('tool_result', 'timeout') offset 0)) w on true
  where h.awake and h.active_agent_turn_id is not null and h.status = 'suspended' and h.worker_target = p_target
    -- Time outside the watch window does not count: one full wait must pass inside it (W2.10). For long waits (people
    -- answer within days) five minutes are enough, because workers that restart every night would never expire one
    -- otherwise.
    and h.resume_deadline < (select state.now())
    and p_watching_since + make_interval(secs => least(coalesce(h.resume_seconds, 0), 300)) < (select state.now())
  limit p_limit
$$;

-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, tool_call_id?, inbox_id, card_id}.
create or replace function state.expire_waits(p_items json, p_valid_until timestamptz)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_due text[];
begin
  perform from state.agent_state_head h
  join (select distinct x.project_id, x.agent_id from json_to_recordset(p_items) as x (project_id text,
    agent_id text)) a
    on h.project_id = a.project_id and h.agent_id = a.agent_id
  order by h.project_id, h.agent_id for no key update of h;
  v_now := state.now();
  if v_now > p_valid_until then return; end if;

  v_due := array(
    select distinct h.active_agent_turn_id from json_to_recordset(p_items) as x (project_id text, agent_id text,
      agent_turn_id text, turn_epoch bigint)
    cross join lateral state.head(x.project_id, x.agent_id) h
    where h.status = 'suspended' and h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch
      and h.resume_deadline < v_now);
  if v_due = '{}' then return; end if;

  return query select * from state.report((
    select json_agg(json_build_object('project_id', x.project_id, 'tool_call_id', x.tool_call_id,
      'inbox_id', x.inbox_id, 'card_id', x.card_id, 'agent_turn_id', x.agent_turn_id, 'turn_epoch', x.turn_epoch,
      'message_type', 'timeout', 'status', 'timeout', 'error', json_build_object('code', 'tool_timeout', 'message',
        case when w.started_by is not null and not w.idempotent
          then 'no answer in time; the call had started and may have taken effect: check before you call it again'
          else 'no answer in time' end)))
    from json_to_recordset(p_items) as x (project_id text, agent_turn_id text, turn_epoch bigint, tool_call_id text,
      inbox_id text, card_id text)
    join state.turn_waiting_tools w on w.project_id = x.project_id and w.tool_call_id = x.tool_call_id
    where x.agent_turn_id = any (v_due))) r where r.what <> 'ignored';

  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
    created_at)
  select 'tool_timeout', h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, 'resume_deadline passed',
    jsonb_build_object('status', h.status, 'resume_deadline', h.resume_deadline,
    'waiting_tool_count', h.waiting_tool_count),
    jsonb_build_object('status', h.status, 'resume_deadline', null), v_now
  from state.agent_state_head h
  join (select distinct x.project_id, x.agent_id from json_to_recordset(p_items) as x (project_id text,
    agent_id text)) a
    on h.project_id = a.project_id and h.agent_id = a.agent_id
  where h.active_agent_turn_id = any (v_due);

  update state.agent_state_head h set resume_deadline = null
  from (select distinct x.project_id, x.agent_id from json_to_recordset(p_items) as x (project_id text,
    agent_id text)) a
  where h.project_id = a.project_id and h.agent_id = a.agent_id and h.active_agent_turn_id = any (v_due);
end $$;
