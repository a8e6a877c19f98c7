-- Records what a running turn writes: cards into its output box, a step, and the step's event. Locks the fenced head
-- FOR SHARE, so that no reap can come between the check and the commit (hazard 3); a lost fence writes nothing and
-- returns 'stale'. A card that the turn has written before is left as it is; the id of any other card raises BW007.
-- If the turn has a budget, the step's usage is charged to it, and the verdict contains what is left.
-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, cards?: [{card_id, type, role, content, metadata?}], step?:
-- {step_id, phase, status, tool_call_ids?, metadata?, error?}}.
create or replace function state.record(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_live text[];
  v_holding text[] := '{}';
  v_step record;
  v_foreign text;
begin
  v_live := array(
    select x.agent_turn_id || ' ' || x.turn_epoch
    from (select * from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text,
      turn_epoch bigint) order by x.project_id, x.agent_id) x
    cross join lateral (
      select h.active_agent_turn_id, h.turn_epoch, h.status from state.agent_state_head h
      where h.project_id = x.project_id and h.agent_id = x.agent_id
      order by h.epoch_group desc limit 1 for share) h
    where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch and h.status = 'running');
  v_now := state.now();

  if v_live <> '{}' then
    with items as materialized (
      select x.*, h.output_box_id from rows from (json_to_recordset(p_items) as (project_id text, agent_id text,
        agent_turn_id text, turn_epoch bigint, cards json))
        with ordinality as x (project_id, agent_id, agent_turn_id, turn_epoch, cards, ord)
      cross join lateral state.head(x.project_id, x.agent_id) h
      where x.agent_turn_id || ' ' || x.turn_epoch = any (v_live) and x.cards is not null
    ), made as (
      insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
      -- Every card names its turn: a turn distinguishes its own cards from those of earlier turns by it (T9.3).
      select c.card_id, x.project_id, c.type, coalesce(c.role, 'assistant'), c.content,
        coalesce(c.metadata, '{}') || jsonb_build_object('agent_turn_id', x.agent_turn_id), v_now
      from items x cross join lateral json_to_recordset(x.cards) as c (card_id text, type text, role text,
        content jsonb, metadata jsonb)
      on conflict do nothing
      returning card_id
    )
    insert into cards.box_cards (box_id, card_id)
    select x.output_box_id, m.card_id from items x
    cross join lateral json_array_elements(x.cards) with ordinality as c (value, ord)
    join made m on m.card_id = c.value ->> 'card_id'
    where x.output_box_id is not null order by x.ord, c.ord;

    select k.card_id into v_foreign
    from json_to_recordset(p_items) as x (project_id text, agent_turn_id text, turn_epoch bigint, cards json)
    cross join lateral json_to_recordset(coalesce(x.cards, '[]')) as c (card_id text)
    join cards.cards k on k.card_id = c.card_id
    where x.agent_turn_id || ' ' || x.turn_epoch = any (v_live)
      and (k.project_id, k.metadata ->> 'agent_turn_id') is distinct from (x.project_id, x.agent_turn_id)
    limit 1;
    if v_foreign is not null then
      raise exception 'card % belongs to another turn', v_foreign using errcode = 'BW007';
    end if;

    -- Charges what the steps used, for turns with a budget.
    for v_step in
      select x.agent_turn_id, x.turn_epoch, x.step ->> 'step_id' as step_id,
        coalesce(o.metadata, '{}') || coalesce(x.step -> 'metadata', '{}') as metadata
      from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
        step jsonb)
      cross join lateral state.head(x.project_id, x.agent_id) h
      left join state.agent_steps o on o.step_id = x.step ->> 'step_id' and o.agent_turn_id = x.agent_turn_id
      where x.step is not null and h.holds and x.agent_turn_id || ' ' || x.turn_epoch = any (v_live)
    loop
      v_holding := v_holding || v_step.agent_turn_id;
      -- What reservations have charged needs no item of its own.
      if v_step.metadata ? 'frozen_ms'
        or (v_step.metadata ?| '{usage, cost_micros}' and v_step.metadata -> 'charged' is distinct from 'true') then
        perform state.charge_step(v_step.agent_turn_id, v_step.turn_epoch, v_step.step_id,
          state.step_usage(v_step.metadata));
      end if;
    end loop;

    with steps as materialized (
      select x.project_id, x.agent_id, x.agent_turn_id, h.active_channel_id,
        state.trace_of(i.agent_turn_id, i.traceparent) as traceparent, o.status as old_status, s.*
      from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
        step json)
      cross join lateral state.head(x.project_id, x.agent_id) h
      left join lateral state.turn_row(x.agent_turn_id) i on true
      cross join lateral json_to_record(x.step) as s (step_id text, phase text, status text, tool_call_ids text[],
        metadata jsonb, error text)
      left join state.agent_steps o on o.step_id = s.step_id
      where x.agent_turn_id || ' ' || x.turn_epoch = any (v_live) and x.step is not null
    ), written as (
      insert into state.agent_steps as t (project_id, agent_id, step_id, agent_turn_id, phase, status, tool_call_ids,
        metadata, error, started_at, ended_at)
      select project_id, agent_id, step_id, agent_turn_id, phase, status, coalesce(tool_call_ids, '{}'),
        coalesce(metadata, '{}'), error, v_now,
        case when status <> 'running' then v_now end
      from steps
      on conflict (step_id) do update set phase = excluded.phase, status = excluded.status,
        metadata = t.metadata || excluded.metadata, tool_call_ids = case excluded.tool_call_ids when '{}'
          then t.tool_call_ids else excluded.tool_call_ids end,
        error = excluded.error, ended_at = excluded.ended_at
      where t.agent_turn_id = excluded.agent_turn_id
    )
    insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
    select project_id, 'bw.v1.' || project_id || '.' || active_channel_id || '.evt.agent.' || agent_id || '.step',
      'step', jsonb_strip_nulls(jsonb_build_object('agent_turn_id', agent_turn_id, 'agent_id', agent_id,
        'step_id', step_id, 'phase', phase, 'status', status, 'error', error, 'traceparent', traceparent)),
        agent_turn_id, v_now
    -- A running step that only reports its usage is not announced again.
    from steps where (status, old_status) is distinct from ('running', 'running');
  end if;

  return query
  select case when x.agent_turn_id || ' ' || x.turn_epoch = any (v_live) then 'recorded' else 'stale' end,
    x.project_id, x.agent_id, x.agent_turn_id, x.turn_epoch, null::text, null::text, null::text,
    case when x.agent_turn_id = any (v_holding) then state.budget_left(x.agent_turn_id)
      || state.used_up(x.step ->> 'step_id') end
  from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
    step json);
end $$;
