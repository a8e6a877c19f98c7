-- running → suspended: tool.call cards, waits, deadline and commands in one transaction (T3.3a, T3.3b). The relay
-- publishes the commands after the commit; they carry pointers, never arguments. The declaration in resource.tools
-- applies where the call sets nothing. A call with hosted_by needs no command. A call whose subject is the PMO's, or
-- that names a pmo_tool and is not declared, waits for a PMO (T3.3e). Batches (p_fork, see open_batches) are created
-- with the waits that they answer; a caller with batches sends one item. A call of a tool that is declared with
-- approve: ask waits for a person, unless a grant covers it.
-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, step_id, calls: [{tool_call_id, tool_name, card_id,
-- arguments, after_execution?, timeout_seconds?, idempotent?, hosted_by?, pmo_tool?, shown?}]}. shown: what people see
-- instead of the tool's name.
create or replace function state.suspend(p_items json, p_suspend_seconds double precision, p_fork json default null)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_live text[];
begin
  perform state.lock_heads(array_agg(x.project_id), array_agg(x.agent_id))
  from json_to_recordset(p_items) as x (project_id text, agent_id text);
  v_now := state.now();

  v_live := array(
    select x.agent_turn_id || ' ' || x.turn_epoch from json_to_recordset(p_items) as x (project_id text, agent_id text,
      agent_turn_id text, turn_epoch bigint, calls json)
    cross join lateral state.head(x.project_id, x.agent_id) h
    where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch and h.status = 'running'
      and json_array_length(x.calls) > 0
      -- Tool call ids are unique per project: with a repeated one, one result would answer two calls.
      and not exists (select from json_array_elements(x.calls) c join state.turn_waiting_tools w
        on w.project_id = x.project_id and w.tool_call_id = c ->> 'tool_call_id'));

  if v_live <> '{}' then
    with calls as materialized (
      select x.project_id, x.agent_id, x.agent_turn_id, x.turn_epoch, x.step_id, c.tool_call_id, c.tool_name, c.card_id,
        c.arguments, c.ord, coalesce(c.after_execution, t.after_execution, 'suspend') as after_execution,
        coalesce(c.idempotent, (t.options -> 'idempotent' = 'true'), false) as idempotent,
        greatest(p_suspend_seconds, c.timeout_seconds, state.seconds(t.options -> 'suspend_timeout_seconds'),
        state.seconds(t.options -> 'timeout_seconds')) as seconds,
        coalesce(t.target_subject, 'cmd.sys.pmo.internal.' || c.pmo_tool, 'cmd.tool.' || c.tool_name || '.call')
        as target, case when t.options ->> 'approve' = 'ask' then null else c.hosted_by end as hosted_by,
        t.options ->> 'approve' = 'ask' and state.granted(x.project_id, x.agent_id, x.agent_turn_id, c.tool_name,
        coalesce(c.arguments, '{}')) is null as asks, t.options ->> 'approve' = 'ask' as needs_approval,
        h.active_channel_id, h.output_box_id,
        state.trace_of(i.agent_turn_id, i.traceparent) as traceparent,
        case when i.message_type = 'ui_action' then i.payload end as action, coalesce(c.shown, c.tool_name) as shown
      from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
        step_id text, calls json)
      cross join lateral rows from (json_to_recordset(x.calls) as (tool_call_id text, tool_name text, card_id text,
        arguments jsonb, after_execution text, timeout_seconds double precision, idempotent boolean,
        hosted_by text, pmo_tool text, shown text)) with ordinality
        as c (tool_call_id, tool_name, card_id, arguments, after_execution, timeout_seconds, idempotent, hosted_by,
        pmo_tool, shown, ord)
      cross join lateral state.head(x.project_id, x.agent_id) h
      left join lateral state.turn_row(x.agent_turn_id) i on true
      left join resource.tools t on t.project_id = x.project_id and t.tool_name = c.tool_name
      where x.agent_turn_id || ' ' || x.turn_epoch = any (v_live)
    ), made as (
      -- The card of a person's action names who requested it.
      insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
      select card_id, project_id, 'tool.call', case when action is null then 'assistant' else 'user' end,
        jsonb_build_object('tool_call_id', tool_call_id, 'tool_name', tool_name,
        'arguments', coalesce(arguments, '{}')) || case when action is null then '{}'
        else jsonb_build_object('requested_by', coalesce(action ->> 'requested_by', 'a person'),
        'action_id', action ->> 'action_id') end,
        jsonb_build_object('agent_turn_id', agent_turn_id, 'step_id', step_id), v_now from calls
    ), boxed as (
      insert into cards.box_cards (box_id, card_id) select output_box_id, card_id from calls
      where output_box_id is not null order by agent_turn_id, ord
    ), waits as (
      insert into state.turn_waiting_tools (project_id, agent_id, agent_turn_id, turn_epoch, step_id, tool_call_id,
        tool_name, tool_call_card_id, after_execution, idempotent, started_by, started_at, sent_at, created_at,
        pmo_tool, approval)
      select project_id, agent_id, agent_turn_id, turn_epoch, step_id, tool_call_id, tool_name, card_id,
        after_execution, idempotent, hosted_by,
        case when hosted_by is not null then v_now end, v_now, v_now,
        case when starts_with(target, 'cmd.sys.pmo.internal.') then split_part(target, '.', 5) end,
        case when asks then 'waiting' when needs_approval then 'allowed' end from calls
    ), sums as (
      select project_id, agent_id, agent_turn_id, turn_epoch, active_channel_id, traceparent, count(*)::int as waiting,
        max(seconds) as seconds, min(shown) as tool from calls group by 1, 2, 3, 4, 5, 6
    ), announced as (
      -- One statement, in order: the commands, then the state event.
      insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
      select project_id, subject, kind, jsonb_strip_nulls(payload), agent_turn_id, v_now from (
        select project_id, 'bw.v1.' || project_id || '.' || active_channel_id || '.' || target as subject,
          'command' as kind,
          jsonb_build_object('agent_id', agent_id, 'agent_turn_id', agent_turn_id, 'turn_epoch', turn_epoch,
            'step_id', step_id, 'tool_call_id', tool_call_id, 'tool_name', tool_name, 'after_execution',
            after_execution, 'tool_call_card_id', card_id, 'traceparent', traceparent) as payload, agent_turn_id, ord
        from calls where hosted_by is null and asks is not true
        union all
        select project_id, 'bw.v1.' || project_id || '.' || active_channel_id || '.evt.agent.' || agent_id || '.state',
          'state',
          jsonb_build_object('agent_turn_id', agent_turn_id, 'agent_id', agent_id, 'status', 'suspended',
            'turn_epoch', turn_epoch, 'traceparent', traceparent, 'metadata',
            jsonb_build_object('activity', 'awaiting_tool_result', 'current_tool', tool,
            'waiting_tool_count', waiting)), agent_turn_id, null
        from sums
      ) events order by agent_turn_id, ord nulls last
    )
    update state.agent_state_head h set
      status = 'suspended', waiting_tool_count = s.waiting, resume_seconds = s.seconds,
        resume_deadline = v_now + make_interval(secs => s.seconds),
      activity = 'awaiting_tool_result', current_tool = s.tool, expecting_correlation_id = null, updated_at = v_now
    from sums s cross join lateral state.head_ctid(s.project_id, s.agent_id) as at (tid) where h.ctid = at.tid;
    if p_fork is not null then
      perform state.open_batches(p_fork);
    end if;
    perform state.open_call_approval(w.project_id, w.tool_call_id,
      coalesce(state.seconds(t.options -> 'approve_within_seconds'), 3600), h.resume_seconds)
    from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
      calls json)
    cross join lateral json_array_elements(x.calls) c
    join state.turn_waiting_tools w on w.project_id = x.project_id and w.tool_call_id = c ->> 'tool_call_id'
    join resource.tools t on t.project_id = w.project_id and t.tool_name = w.tool_name
    cross join lateral state.head(x.project_id, x.agent_id) h
    where w.approval = 'waiting' and x.agent_turn_id || ' ' || x.turn_epoch = any (v_live);
  end if;

  return query
  select case when x.agent_turn_id || ' ' || x.turn_epoch = any (v_live) then 'suspended'
      -- The same suspend again after an in-doubt commit; another worker may have resumed the turn since (hazard 12).
      when exists (select from state.turn_waiting_tools w
        where w.agent_turn_id = x.agent_turn_id and w.turn_epoch = x.turn_epoch
        and w.step_id = x.step_id and w.tool_call_id = x.calls -> 0 ->> 'tool_call_id') then 'already'
      when h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch
      and h.status = 'running' then 'refused'
      else 'stale' end,
    x.project_id, x.agent_id, x.agent_turn_id, x.turn_epoch, null::text, null::text, null::text,
    case when h.status = 'running' and not coalesce(x.agent_turn_id || ' ' || x.turn_epoch = any (v_live), false)
      then '{"reason": "no calls, or a tool_call_id that was used before"}'::jsonb end
  from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
    step_id text, calls json)
  left join lateral state.head(x.project_id, x.agent_id) h on true;
end $$;

-- A number of seconds from a tool's options; null if it is invalid.
create or replace function state.seconds(p_value jsonb) returns double precision language sql immutable as $$
  select case when jsonb_typeof(p_value) = 'number' and p_value::numeric > 0
    and p_value::numeric <= 31536000 then p_value::numeric::double precision end
$$;
