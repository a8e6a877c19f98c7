-- Creates boxes and the cards that come with them. Packing copies references in order: this is how context is shared
-- (T5.2).
-- Items: {project_id, box_id, kind, pack?: [box_id…], card_ids?: […], cards?: [{card_id, type, role, content,
-- metadata?}]}.
create or replace function state.make_boxes(p_boxes json) returns void language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_missing text;
begin
  if p_boxes is null then return; end if;
  v_now := state.now();

  insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
  select c.card_id, b.project_id, c.type, coalesce(c.role, 'user'), c.content, coalesce(c.metadata, '{}'), v_now
  from json_to_recordset(p_boxes) as b (project_id text, cards json)
  cross join lateral json_to_recordset(coalesce(b.cards, '[]')) as c (card_id text, type text, role text, content jsonb,
    metadata jsonb);

  select coalesce(
    (select 'card ' || id from json_to_recordset(p_boxes) as b (project_id text, card_ids json)
      cross join lateral json_array_elements_text(coalesce(b.card_ids, '[]')) id
      where not exists (select from cards.cards c where c.card_id = id and c.project_id = b.project_id) limit 1),
    (select 'box ' || id from json_to_recordset(p_boxes) as b (project_id text, pack json)
      cross join lateral json_array_elements_text(coalesce(b.pack, '[]')) id
      where not exists (select from cards.boxes x where x.box_id = id and x.project_id = b.project_id) limit 1))
      into v_missing;
  if v_missing is not null then
    raise exception 'there is no % in this project', v_missing using errcode = 'BW003';
  end if;

  insert into cards.box_cards (box_id, card_id)
  select box_id, card_id from (
    select b.box_id, c.card_id, 1 as part, p.ord, c.position
    from json_to_recordset(p_boxes) as b (box_id text, pack json)
    cross join lateral json_array_elements_text(coalesce(b.pack, '[]')) with ordinality as p (id, ord)
    join cards.box_cards c on c.box_id = p.id
    union all
    select b.box_id, i.id, 2, i.ord, 0 from json_to_recordset(p_boxes) as b (box_id text, card_ids json)
    cross join lateral json_array_elements_text(coalesce(b.card_ids, '[]')) with ordinality as i (id, ord)
    union all
    select b.box_id, c.value ->> 'card_id', 3, c.ord, 0 from json_to_recordset(p_boxes) as b (box_id text, cards json)
    cross join lateral json_array_elements(coalesce(b.cards, '[]')) with ordinality as c (value, ord)
  ) entries order by box_id, part, ord, position;

  insert into cards.boxes (box_id, project_id, kind, result_fields_card_id, created_at)
  select b.box_id, b.project_id, b.kind, (
    select c.card_id from cards.box_cards x join cards.cards c on c.card_id = x.card_id
    where x.box_id = b.box_id and c.type = 'task.result_fields' order by x.position desc limit 1), v_now
  from json_to_recordset(p_boxes) as b (box_id text, project_id text, kind text);
end $$;
