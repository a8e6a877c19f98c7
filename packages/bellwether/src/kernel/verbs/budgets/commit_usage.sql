-- After a model call: charges what the call used and releases the rest of the reservation; null tokens release all of
-- it. Each reservation is settled once: repeating the call returns 'already' and changes nothing, also after a release.
-- A lost fence charges nothing here: the verb that ended or reclaimed the turn has charged the full reservation.
create or replace function state.commit_usage(p_project_id text, p_agent_id text, p_agent_turn_id text,
  p_turn_epoch bigint, p_reservation_id text, p_tokens bigint, p_cost_micros bigint, p_output_tokens bigint,
  p_cache_read_tokens bigint, p_cache_write_tokens bigint)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_what text := 'stale';
  v_done state.reservations;
begin
  perform from state.agent_state_head h
  where h.project_id = p_project_id and h.agent_id = p_agent_id and h.active_agent_turn_id = p_agent_turn_id
    and h.turn_epoch = p_turn_epoch
    and h.status in ('running', 'suspended')
  for share of h;
  if found then
    perform from state.budgets b where b.agent_turn_id = p_agent_turn_id for no key update;
    v_now := state.now();
    update state.reservations r set status = case when p_tokens is null then 'released' else 'committed' end,
      settled_at = v_now, tokens_used = coalesce(p_tokens, 0),
      cost_micros_used = coalesce(case when p_tokens is null then 0 else p_cost_micros end, 0),
      output_tokens_used = coalesce(p_output_tokens, 0), cache_read_tokens_used = coalesce(p_cache_read_tokens, 0),
      cache_write_tokens_used = coalesce(p_cache_write_tokens, 0)
    where r.reservation_id = p_reservation_id and r.agent_turn_id = p_agent_turn_id and r.turn_epoch = p_turn_epoch
      and r.status = 'open'
    returning * into v_done;
    if v_done.reservation_id is not null then
      update state.budgets b set tokens_reserved = b.tokens_reserved - v_done.tokens,
        tokens_used = b.tokens_used + v_done.tokens_used,
        cost_micros_reserved = b.cost_micros_reserved - v_done.cost_micros,
        cost_micros_used = b.cost_micros_used + v_done.cost_micros_used,
        output_tokens_used = b.output_tokens_used + v_done.output_tokens_used,
        cache_read_tokens_used = b.cache_read_tokens_used + v_done.cache_read_tokens_used,
        cache_write_tokens_used = b.cache_write_tokens_used + v_done.cache_write_tokens_used, updated_at = v_now
      where b.budget_id = v_done.budget_id;
      v_what := v_done.status;
    elsif exists (select from state.reservations r where r.reservation_id = p_reservation_id
      and r.agent_turn_id = p_agent_turn_id and r.turn_epoch = p_turn_epoch) then
      v_what := 'already';
    end if;
  end if;
  return query select v_what, p_project_id, p_agent_id, p_agent_turn_id, p_turn_epoch, null::text, null::text,
    null::text, state.budget_left(p_agent_turn_id);
end $$;
