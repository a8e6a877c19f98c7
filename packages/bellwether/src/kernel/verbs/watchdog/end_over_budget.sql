-- H7.5: ends turns that crossed their budget and whose workers did not end them: outcome failed, error budget_exceeded,
-- and a fallback with the work so far. Workers come first: reserve and commit return the crossing to them, and
-- this verb ends a token or cost budget only p_grace_seconds after it was crossed, wall time at once. Only time inside
-- the watch window counts (W2.10). The length of p_card_ids limits how many turns are ended.
create or replace function state.end_over_budget(p_grace_seconds double precision, p_watching_since timestamptz,
  p_valid_until timestamptz, p_card_ids text[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_turns text[];
  v_endings state.ending[];
begin
  if v_now > p_valid_until then return; end if;
  v_turns := array(
    (select b.agent_turn_id from state.budgets b
    where b.agent_turn_id is not null and b.ended_at is null
      and (b.tokens_used > b.token_limit or b.cost_micros_used > b.cost_micros_limit)
      and b.updated_at < v_now - make_interval(secs => p_grace_seconds)
      and p_watching_since < v_now - make_interval(secs => p_grace_seconds)
    limit cardinality(p_card_ids))
    union
    (select b.agent_turn_id from state.budgets b cross join lateral state.turn_row(b.agent_turn_id) i
    where b.wall_ms_limit is not null and b.agent_turn_id is not null and b.ended_at is null and i.ended_at is null
      and i.started_at < v_now - make_interval(secs => b.wall_ms_limit / 1000.0)
      and state.working_ms(b.agent_turn_id) > b.wall_ms_limit
      and p_watching_since < v_now - make_interval(secs => least(b.wall_ms_limit / 1000.0, p_grace_seconds))
    limit cardinality(p_card_ids)));
  if v_turns = '{}' then return; end if;

  v_endings := array(
    select row(l.project_id, l.agent_id, l.active_agent_turn_id, true, 'failed', 'budget_exceeded',
      p_card_ids[row_number() over (order by l.project_id, l.agent_id)],
      null, 'budget_exceeded', l.status = 'suspended', true, 'watchdog',
      'the turn exceeded its budget: ' || array_to_string(l.keys, ', '), null)::state.ending
    from (
      select h.project_id, h.agent_id, h.active_agent_turn_id, h.status, (select state.exceeded_keys(b)
        from state.budgets b where b.agent_turn_id = t) as keys from unnest(v_turns) t
      cross join lateral state.turn_row(t) i
      join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
      where h.active_agent_turn_id = t and h.status in ('running', 'suspended')
      order by h.project_id, h.agent_id limit cardinality(p_card_ids)
      for no key update of h skip locked) l);
  if v_endings = '{}' then return; end if;

  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
    created_at)
  select 'reap', e.project_id, e.agent_id, e.agent_turn_id, h.turn_epoch + 1, 'budget_exceeded',
    jsonb_build_object('status', h.status, 'turn_epoch', h.turn_epoch, 'budget', state.budget_left(e.agent_turn_id)),
    jsonb_build_object('status', 'idle', 'turn_epoch', h.turn_epoch + 1, 'outcome', 'failed'), v_now
  from unnest(v_endings) e cross join lateral state.head(e.project_id, e.agent_id) h;
  return query select * from state.finish_turn_idle(v_endings);
end $$;
