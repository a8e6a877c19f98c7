-- The words of turns, for the search of the Turns page. A turn is found by its deliverable and by the last cards of its
-- context box. The PMO lists the words of ended turns in blocks. A block says only where a search must look: the search
-- then compares the cards of each turn (reads/turns/words.ts).

-- The words of a card. Of a very large one, the words at its beginning, because a vector holds 1 MB.
create or replace function state.card_words(p_content jsonb) returns tsvector language sql stable as $$
  select case when octet_length(p_content::text) <= 200000
    then jsonb_to_tsvector('simple', p_content, '["string", "numeric"]')
    else to_tsvector('simple', regexp_replace(left(p_content::text, 50000), '\\[bfnrt"/\\]', ' ', 'g')) end
$$;

-- What a turn is found by. A box that agents share may be long; the instruction is near its end.
create or replace function state.turn_contents(p_context_box_id text, p_deliverable_card_id text)
returns table (content jsonb) language sql stable as $$
  select c.content from (
    (select x.card_id from cards.box_cards x where x.box_id = p_context_box_id order by x.position desc limit 20)
    union all select p_deliverable_card_id) t
  join cards.cards c on c.card_id = t.card_id
$$;

-- Writes one block per project for ended turns that no block contains.
create or replace function state.add_words(p_turns text[]) returns void language sql as $$
  with turns as materialized (
    select i.project_id, i.agent_turn_id, coalesce(i.archived_at, i.ended_at) as ended_at,
      i.payload ->> 'context_box_id' as context_box_id, i.deliverable_card_id
    from unnest(p_turns) t cross join lateral state.turn_row(t) i where i.ended_at is not null
  ), contents as materialized (
    select t.project_id, c.content, pg_column_size(c.content) as bytes
    from turns t cross join lateral state.turn_contents(t.context_box_id, t.deliverable_card_id) c
  ), small as (
    -- Reading more would take seconds.
    select project_id from contents group by project_id having sum(bytes) <= 2097152
  ), vectors as materialized (
    select c.project_id, state.card_words(c.content) as words
    from contents c join small s on s.project_id = c.project_id
  ), words as materialized (
    select d.project_id, coalesce(array_agg(d.word) filter (where d.word <> ''), '{}') as words from (
      select distinct v.project_id, w.word collate "C" as word
      from vectors v left join lateral unnest(tsvector_to_array(v.words)) w (word) on true) d
    group by d.project_id having count(*) <= 60000 and coalesce(sum(octet_length(d.word) + 8), 0) < 900000
  )
  insert into state.word_blocks (project_id, first_turn, last_turn, turns, ended_at, words)
  select t.project_id, min(t.agent_turn_id), max(t.agent_turn_id), array_agg(t.agent_turn_id), max(t.ended_at),
    case when bool_or(exists (select from contents c where c.project_id = t.project_id)) then
      (select array_to_tsvector(w.words) from words w where w.project_id = t.project_id)
      else '' end
  from turns t group by t.project_id
$$;

-- Writes a block for up to 255 turns that ended in the next p_limit rows of the outbox. Fewer than p_least wait for
-- more, because few turns have nearly as many different words. Returns how many rows it covers; null: another PMO
-- writes.
create or replace function state.index_words(p_limit int, p_least int) returns int language plpgsql as $$
declare
  p state.word_progress;
  v_until bigint;
  v_turns text[];
  v_rows int;
  v_full boolean;
  v_xid xid8;
  v_event_id bigint;
begin
  select * into p from state.word_progress for no key update skip locked;
  if p.one is null then return null; end if;
  -- Most calls stop here: each turn is at least one row, and the ids of rows count by messages_max().
  if coalesce(pg_sequence_last_value('state.events_event_id_seq'), 0) - p.event_id < p_least * state.messages_max() then
    return 0;
  end if;
  v_until := state.readable_until();
  with page as materialized (
    select o.*, count(*) filter (where o.kind = 'task') over (order by o.xid, o.event_id) as turns from (
      select o.xid, o.event_id, o.kind, o.agent_turn_id from state.outbox o
      where (o.xid, o.event_id) > (p.xid, p.event_id) and (o.xid, o.event_id) <= (state.outbox_era(), v_until)
      order by o.xid, o.event_id limit p_limit) o
  ), covered as materialized (select * from page where turns < 256)
  select (select count(*) from covered), (select count(*) = p_limit from page),
    (select array_agg(o.agent_turn_id) from covered o where o.kind = 'task'), l.xid, l.event_id
  into v_rows, v_full, v_turns, v_xid, v_event_id
  from (select 1) one left join lateral (select * from covered order by xid desc, event_id desc limit 1) l on true;
  if v_rows = 0 or not v_full and coalesce(cardinality(v_turns), 0) < p_least then return 0; end if;
  perform state.add_words(v_turns);
  update state.word_progress set xid = v_xid, event_id = v_event_id;
  return v_rows;
end $$;
