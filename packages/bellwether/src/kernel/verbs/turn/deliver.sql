-- A worker ends turns: running → idle, or suspended with every wait settled → idle (T3.3c, T3.5). Returns per item
-- 'ended', 'already' (the same fence delivered before: an in-doubt commit, hazard 12), 'stale' (another fence, or none)
-- or 'refused' with the missing required result fields (T4.2a); then 'leased' for the next turns. If every item of a
-- batch ended, one 'all_ended' stands for all of them.
-- One item per position of the arrays; p_errors may be null.
create or replace function state.deliver(p_projects text[], p_agents text[], p_turns text[], p_epochs bigint[],
  p_statuses text[], p_errors text[], p_card_ids text[], p_contents jsonb[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_heads tid[] := state.lock_heads(p_projects, p_agents);
  v_live text[];
  v_endings state.ending[];
begin
  v_endings := array(
    select row(x.project_id, x.agent_id, x.agent_turn_id, false,
      case when b.keys is null then x.status else 'failed' end,
      case when b.keys is null then x.error else 'budget_exceeded' end, x.card_id, x.content, null,
      h.status = 'suspended', h.holds, 'worker',
      'the turn exceeded its budget: ' || array_to_string(b.keys, ', '), x.tid)::state.ending
    from unnest(p_projects, p_agents, p_turns, p_epochs, p_statuses, p_errors, p_card_ids, p_contents, v_heads)
      as x (project_id, agent_id, agent_turn_id, turn_epoch, status, error, card_id, content, tid)
    cross join lateral (select * from state.agent_state_head h where h.ctid = x.tid offset 0) h
    -- H7.5: a turn over its budget has failed, also if its worker finished; the result stays as the work so far.
    left join lateral (select nullif(state.exceeded_keys(b), '{}') as keys from state.budgets b
      where h.holds and x.status = 'success' and b.agent_turn_id = x.agent_turn_id) b on true
    where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch
      and (h.status = 'running' or (h.status = 'suspended' and h.waiting_tool_count = 0))
      and (x.status <> 'success' or h.context_box_id is null
        -- Most boxes ask for no fields: the lookup is cheaper than the call.
        or not exists (select from cards.boxes b
          where b.box_id = h.context_box_id and b.result_fields_card_id is not null offset 0)
        or state.missing_fields(h.context_box_id, x.content) is null));
  -- A turn that is in the batch twice ends once.
  if (select count(distinct t) from unnest(v_heads) t) < cardinality(v_heads) then
    v_endings := array(select e.ending from (
      select distinct on (e.agent_turn_id) e as ending from unnest(v_endings) e order by e.agent_turn_id) e);
  end if;

  if v_endings <> '{}' then
    return query select * from state.finish_turn_idle(v_endings,
      cardinality(v_endings) = cardinality(p_turns) and cardinality(p_turns) > 1);
  end if;
  if cardinality(v_endings) = cardinality(p_turns) then return; end if;

  v_live := array(select e.agent_turn_id from unnest(v_endings) e);
  return query
  select case
      when h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch
        and (h.status = 'running' or (h.status = 'suspended' and h.waiting_tool_count = 0)) then 'refused'
      when i.ended_at is not null and i.turn_epoch = x.turn_epoch and i.status = 'consumed' and i.agent_id = x.agent_id
        and i.project_id = x.project_id then 'already'
      else 'stale' end,
    x.project_id, x.agent_id, x.agent_turn_id, x.turn_epoch, i.inbox_id, null::text, null::text,
    case when h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch
      then jsonb_build_object('missing', state.missing_fields(h.context_box_id, x.content)) end
  from unnest(p_projects, p_agents, p_turns, p_epochs, p_contents)
    as x (project_id, agent_id, agent_turn_id, turn_epoch, content)
  left join lateral state.head(x.project_id, x.agent_id) h on true
  left join lateral state.turn_row(x.agent_turn_id) i on true
  -- A turn that ended here has its verdict; another epoch of it, or another agent, is stale.
  where x.agent_turn_id <> all (v_live) or (i.turn_epoch, i.agent_id, i.project_id)
    is distinct from (x.turn_epoch, x.agent_id, x.project_id);
end $$;

-- The required result fields of a context box that a deliverable does not contain; null if it contains all of them.
create or replace function state.missing_fields(p_context_box_id text, p_content jsonb)
returns jsonb language sql stable as $$
  select jsonb_agg(f ->> 'name')
  from cards.boxes b
  join cards.cards c on c.card_id = b.result_fields_card_id
  cross join lateral jsonb_array_elements(case jsonb_typeof(c.content -> 'fields') when 'array'
    then c.content -> 'fields' else '[]' end) f
  where b.box_id = p_context_box_id and f -> 'required' = 'true'
    and not exists (
      select from jsonb_array_elements(case jsonb_typeof(p_content -> 'fields') when 'array' then p_content -> 'fields'
        else '[]' end) g
      where g ->> 'name' = f ->> 'name' and jsonb_typeof(g -> 'value') <> 'null'
        and case f ->> 'type'
          when 'string' then jsonb_typeof(g -> 'value') = 'string'
          when 'number' then jsonb_typeof(g -> 'value') = 'number'
          when 'integer' then jsonb_typeof(g -> 'value') = 'number' and (g ->> 'value')::numeric % 1 = 0
          when 'boolean' then jsonb_typeof(g -> 'value') = 'boolean'
          when 'array' then jsonb_typeof(g -> 'value') = 'array'
          when 'object' then jsonb_typeof(g -> 'value') = 'object'
          else true end)
$$;
