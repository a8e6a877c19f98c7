-- The content of a fallback, the deliverable of a turn that did not succeed: what the worker delivered, if it did, and
-- the reason, the work that the kernel has, and where the rest is. Bounded: the end of the newest text, the newest tool
-- results, each cut. Reads only cards since the deliverable of the previous turn in the output box.
create or replace function state.fallback(p_ending state.ending, p_output_box_id text)
returns jsonb language plpgsql stable as $$
#variable_conflict use_column
declare
  -- Together at most 200 KB, even if JSON escapes every character.
  c_text_chars constant int := 8000;
  c_results constant int := 10;
  c_result_chars constant int := 1000;
  -- More than a turn usually writes; walking back over them takes about one millisecond.
  c_cards constant int := 200;
  v_started boolean;
  v_cards int;
  v_seen int;
  v_last_text text;
  v_received int;
  v_results jsonb;
begin
  select i.started_at is not null into v_started from state.turn_row(p_ending.agent_turn_id) i;

  if v_started then
    with newest as materialized (
      select x.position, c.card_id, c.type, c.metadata ->> 'agent_turn_id' as agent_turn_id
      from (select * from cards.box_cards x where x.box_id = p_output_box_id
        order by x.position desc limit c_cards) x
      cross join lateral (select * from cards.cards c where c.card_id = x.card_id offset 0) c
    ), written as materialized (
      select n.* from newest n where n.type <> 'task.deliverable' and n.position > coalesce((
        select max(d.position) from newest d where d.type = 'task.deliverable'
          -- A turn that is cancelled in the queue writes its deliverable while another turn of the agent runs.
          and not exists (select from state.turn_row(d.agent_turn_id) i where i.status = 'cancelled')), 0)
    )
    select (select count(*) from written), (select count(*) from newest), (
      select right(t.words, c_text_chars) from written w join cards.cards c on c.card_id = w.card_id
      cross join lateral (select coalesce(c.content ->> 'text', c.content::text) as words) t
      where w.type = 'agent.thought' and t.words ~ '\S' order by w.position desc limit 1)
    into v_cards, v_seen, v_last_text;

    select count(*), jsonb_agg(jsonb_build_object('tool_call_id', r.correlation_id,
        'tool_name', c.content -> 'tool_name', 'status', c.content -> 'status', 'card_id', c.card_id,
        'error', c.content -> 'error' ->> 'code',
        'result', case when length(t.words) > c_result_chars then to_jsonb(left(t.words, c_result_chars))
          else c.content -> 'result' end,
        'truncated', coalesce(length(t.words) > c_result_chars, false)) order by r.place desc)
        filter (where r.place <= c_results)
    into v_received, v_results
    from (
      select r.correlation_id, r.payload ->> 'tool_result_card_id' as card_id,
        row_number() over (order by r.created_at desc, r.inbox_id desc) as place
      from state.agent_inbox r
      where r.agent_turn_id = p_ending.agent_turn_id and r.message_type in ('tool_result', 'timeout')) r
    join cards.cards c on c.card_id = r.card_id
    cross join lateral (select case when r.place <= c_results then (c.content -> 'result')::text end as words) t;
  end if;

  return state.fallback_content(p_ending, p_output_box_id, v_started, v_cards, v_last_text,
    v_results, v_received, v_seen = c_cards and v_cards = v_seen or v_received > c_results);
end $$;

-- The card of a fallback, from what the kernel has found. An expression without a query, so that the server inlines it:
-- a sweep that ends a thousand turns without work calls no function per turn.
create or replace function state.fallback_content(p_ending state.ending, p_output_box_id text, p_started boolean,
  p_cards int, p_last_text text, p_results jsonb, p_received int, p_truncated boolean)
returns jsonb language sql stable as $$
  select coalesce((p_ending).content, jsonb_build_object('text', concat_ws(e'\n\n',
        case when (p_ending).force_reason is not null then 'The watchdog ended this turn (' || (p_ending).error || '): '
          when p_started then 'Stopped by ' || (p_ending).ended_by || ': '
          else 'Cancelled before it started, by ' || (p_ending).ended_by || ': ' end
          || state.fallback_reason(p_ending),
        'The work so far:' || e'\n\n' || p_last_text,
        case when p_results is not null then 'Tool results: ' || state.result_names(p_results) end),
      'status', (p_ending).outcome, 'error', (p_ending).error))
    || jsonb_build_object('fallback', jsonb_build_object(
      'code', coalesce((p_ending).error, (p_ending).outcome), 'ended_by', (p_ending).ended_by,
      'reason', state.fallback_reason(p_ending), 'started', coalesce(p_started, false), 'cards', coalesce(p_cards, 0),
      -- What a worker delivers is often its newest text, which state.fallback cuts to its last 8,000 characters.
      'last_text', case when p_last_text <> right((p_ending).content ->> 'text', 8000) is not false
        then p_last_text end,
      'tool_results', coalesce(p_results, '[]'), 'tool_results_received', coalesce(p_received, 0),
      'truncated', coalesce(p_truncated, false), 'output_box_id', p_output_box_id)
      || case when (p_ending).error = 'budget_exceeded' then state.stopped_by((p_ending).agent_turn_id) else '{}' end)
$$;

create or replace function state.fallback_reason(p_ending state.ending) returns text language sql immutable as $$
  select left(coalesce((p_ending).reason, (p_ending).content ->> 'text', (p_ending).error, (p_ending).outcome), 2000)
$$;

create or replace function state.result_names(p_results jsonb) returns text language sql immutable as $$
  select string_agg((r ->> 'tool_name') || ' (' || (r ->> 'status') || ')', ', ') from jsonb_array_elements(p_results) r
$$;

-- The endings, with a fallback as the content of each one that is not a success. Most turns that a watchdog ends left
-- no work: the newest card of the turn's box is the deliverable of an earlier turn, or there is none, and no receipt
-- names the turn. One query finds all of them, because state.fallback costs as much as the rest of an ending. If a
-- watchdog ends them, their fallbacks differ only by rule and by box: building the JSON of each would cost 30 µs.
create or replace function state.with_fallbacks(p_endings state.ending[]) returns state.ending[]
language plpgsql stable as $$
#variable_conflict use_column
begin
  return array(
    with work as materialized (
      select e.*, i.started_at is not null as started, b.output_box_id, w.without, w.without and e.content is null
        and e.force_reason is not null and e.error <> 'budget_exceeded' as alike
      from unnest(p_endings) with ordinality e
      left join lateral (select * from state.agent_state_head h
        where h.ctid = coalesce(e.head_tid, (select t from state.head_ctid(e.project_id, e.agent_id) t)) offset 0) h
        on true
      left join lateral state.turn_row(e.agent_turn_id) i on true
      cross join lateral (select coalesce(case when h.active_agent_turn_id is distinct from e.agent_turn_id
        then i.payload ->> 'output_box_id' end, h.output_box_id) as output_box_id) b
      cross join lateral (select not exists (
          select from (select * from cards.box_cards x where x.box_id = b.output_box_id
            order by x.position desc limit 1) x
          cross join lateral (select * from cards.cards c where c.card_id = x.card_id offset 0) c
          -- A turn that is cancelled in the queue writes its deliverable while another turn of the agent runs.
          where c.type <> 'task.deliverable' or exists (select from state.turn_row(c.metadata ->> 'agent_turn_id') d
            where d.status = 'cancelled'))
        and not exists (select from state.agent_inbox r where r.agent_turn_id = e.agent_turn_id
          and r.message_type in ('tool_result', 'timeout') offset 0) as without offset 0) w
    ), rules as materialized (
      select r.*, state.fallback_content(row(null, null, null, null, r.outcome, r.error, null, null, r.force_reason,
        null, null, r.ended_by, r.reason, null)::state.ending, null, r.started, null, null, null, null, null) as content
      from (select distinct outcome, error, force_reason, ended_by, reason, started from work where alike) r
    )
    select row(e.project_id, e.agent_id, e.agent_turn_id, e.bump_epoch, e.outcome, e.error, e.card_id,
      case when e.outcome = 'success' then e.content
        when e.alike then (select jsonb_set(r.content, '{fallback,output_box_id}',
            coalesce(to_jsonb(e.output_box_id), 'null')) from rules r
          where r.error = e.error and r.started = e.started and r.outcome = e.outcome
            and r.force_reason = e.force_reason and r.ended_by = e.ended_by and r.reason = e.reason)
        when e.without then state.fallback_content(g.ending, e.output_box_id, e.started, null, null, null, null, null)
        else state.fallback(g.ending, e.output_box_id) end,
      e.force_reason, e.was_suspended, e.holds, e.ended_by, e.reason, e.head_tid)::state.ending
    from work e
    cross join lateral (select row(e.project_id, e.agent_id, e.agent_turn_id, e.bump_epoch, e.outcome, e.error,
      e.card_id, e.content, e.force_reason, e.was_suspended, e.holds, e.ended_by, e.reason, null)::state.ending
      as ending) g
    order by e.ordinality);
end $$;
