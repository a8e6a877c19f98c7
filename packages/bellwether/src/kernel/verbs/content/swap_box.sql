-- Compaction (T5.4): replaces the output box of a running turn by a new box of cards that the turn already sees and of
-- new cards, in one transaction. The old box stays unchanged for readers with its id. A lost fence writes nothing and
-- returns 'stale'.
-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, box_id, card_ids?: […], cards?: [{card_id, type, role,
-- content, metadata?}]}.
create or replace function state.swap_box(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_live text[];
  v_hidden text;
begin
  v_live := array(
    select x.agent_turn_id || ' ' || x.turn_epoch
    from (select * from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text,
      turn_epoch bigint) order by x.project_id, x.agent_id) x
    cross join lateral (
      select h.active_agent_turn_id, h.turn_epoch, h.status from state.agent_state_head h
      where h.project_id = x.project_id and h.agent_id = x.agent_id
      order by h.epoch_group desc limit 1 for no key update) h
    where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch and h.status = 'running');

  if v_live <> '{}' then
    -- A turn sees only its own two boxes (T5.2): compaction must not give it cards of another box.
    select id into v_hidden
    from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
      card_ids json)
    cross join lateral state.head(x.project_id, x.agent_id) h
    cross join lateral json_array_elements_text(coalesce(x.card_ids, '[]')) id
    where x.agent_turn_id || ' ' || x.turn_epoch = any (v_live)
      and not exists (select from cards.box_cards b where b.box_id in (h.context_box_id, h.output_box_id)
        and b.card_id = id)
    limit 1;
    if v_hidden is not null then
      raise exception 'there is no card % in the boxes of this turn', v_hidden using errcode = 'BW003';
    end if;

    perform state.make_boxes((
      select json_agg(json_build_object('project_id', x.project_id, 'box_id', x.box_id, 'kind', 'output',
        'card_ids', x.card_ids, 'cards', (
          select json_agg(c || jsonb_build_object('metadata', coalesce(nullif(c -> 'metadata', 'null'), '{}')
            || jsonb_build_object('agent_turn_id', x.agent_turn_id)))
          from jsonb_array_elements(x.cards) c)))
      from json_to_recordset(p_items) as x (project_id text, agent_turn_id text, turn_epoch bigint, box_id text,
        card_ids json, cards jsonb)
      where x.agent_turn_id || ' ' || x.turn_epoch = any (v_live)));
    update cards.boxes b set agent_id = h.agent_id
    from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
      box_id text)
    cross join lateral state.head(x.project_id, x.agent_id) h
    where b.box_id = x.box_id and h.home_box_id = h.output_box_id
      and x.agent_turn_id || ' ' || x.turn_epoch = any (v_live);
    update state.agent_state_head h set output_box_id = x.box_id,
      home_box_id = case when h.home_box_id = h.output_box_id then x.box_id else h.home_box_id end
    from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
      box_id text)
    cross join lateral state.head_ctid(x.project_id, x.agent_id) as at (tid)
    where h.ctid = at.tid and x.agent_turn_id || ' ' || x.turn_epoch = any (v_live);
  end if;

  return query
  select case when x.agent_turn_id || ' ' || x.turn_epoch = any (v_live) then 'swapped' else 'stale' end,
    x.project_id, x.agent_id, x.agent_turn_id, x.turn_epoch, null::text, null::text, null::text,
    case when x.agent_turn_id || ' ' || x.turn_epoch = any (v_live) then to_jsonb(x.box_id) end
  from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
    box_id text);
end $$;
