-- Opens a purse, or sets the limits of an existing one and keeps what it used. The used amounts apply only to a new
-- purse: they are the caller's record of earlier usage, in another database or before retention.
create or replace function state.open_purse(p_project_id text, p_budget_id text, p_token_limit bigint,
  p_cost_micros_limit bigint, p_wall_ms_limit bigint, p_tokens_used bigint, p_cost_micros_used bigint,
  p_wall_ms_used bigint)
returns setof state.verdict language plpgsql as $$
declare
  v_now timestamptz := state.now();
begin
  insert into state.budgets as b (budget_id, project_id, token_limit, cost_micros_limit, wall_ms_limit, tokens_used,
    cost_micros_used, wall_ms_used, created_at, updated_at)
  values (p_budget_id, p_project_id, p_token_limit, p_cost_micros_limit, p_wall_ms_limit, coalesce(p_tokens_used, 0),
    coalesce(p_cost_micros_used, 0), coalesce(p_wall_ms_used, 0), v_now, v_now)
  on conflict (budget_id) do update set token_limit = excluded.token_limit,
    cost_micros_limit = excluded.cost_micros_limit, wall_ms_limit = excluded.wall_ms_limit, updated_at = v_now
  where b.project_id = excluded.project_id and b.agent_turn_id is null;
  return query select 'opened', p_project_id, null::text, null::text, null::bigint, null::text, null::text, null::text,
    null::jsonb where found;
end $$;
