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
  v_live text[];
  v_endings state.ending[];
  v_twice boolean;
  v_holding boolean;
begin
  -- Locks all heads first, in one order (hazard 8), and compares the fences with what it has locked: after a wait, a
  -- locking read returns the newest version of a head (hazard 1).
  select coalesce(array_agg(row(x.project_id, x.agent_id, x.agent_turn_id, false, x.status, x.error, x.card_id,
      x.content, null, h.status = 'suspended', h.holds, 'worker', null, h.tid)::state.ending), '{}'),
    count(distinct h.tid) < count(*), bool_or(h.holds and x.status = 'success')
  into v_endings, v_twice, v_holding
  from (select * from unnest(p_projects, p_agents, p_turns, p_epochs, p_statuses, p_errors, p_card_ids, p_contents)
      as x (project_id, agent_id, agent_turn_id, turn_epoch, status, error, card_id, content)
    order by x.project_id, x.agent_id) x
  cross join lateral (
    select h.ctid as tid, h.active_agent_turn_id, h.turn_epoch, h.status, h.waiting_tool_count, h.holds,
      h.context_box_id
    from state.agent_state_head h where h.project_id = x.project_id and h.agent_id = x.agent_id
    order by h.epoch_group desc limit 1 for no key update) h
  where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch
    and (h.status = 'running' or (h.status = 'suspended' and h.waiting_tool_count = 0))
    and (x.status <> 'success' or h.context_box_id is null
      -- Most boxes ask for no fields: the lookup is cheaper than the call.
      or not exists (select from cards.boxes b
        where b.box_id = h.context_box_id and b.result_fields_card_id is not null offset 0)
      or state.missing_fields(h.context_box_id, x.content) is null);
  -- A turn that is in the batch twice ends once.
  if v_twice then
    v_endings := array(select e.ending from (
      select distinct on (e.agent_turn_id) e as ending from unnest(v_endings) e order by e.agent_turn_id) e);
  end if;
  -- H7.5: a turn over its budget has failed, also if its worker finished; the result stays as the work so far. Budgets
  -- are read after the lock (hazard 1).
  if v_holding then
    v_endings := array(
      select row(e.project_id, e.agent_id, e.agent_turn_id, false, case when b.keys is null then e.outcome
          else 'failed' end, case when b.keys is null then e.error else 'budget_exceeded' end, e.card_id, e.content,
        null, e.was_suspended, e.holds, e.ended_by, 'the turn exceeded its budget: ' || array_to_string(b.keys, ', '),
        e.head_tid)::state.ending
      from unnest(v_endings) e
      left join lateral (select nullif(state.exceeded_keys(b), '{}') as keys from state.budgets b
        where e.holds and e.outcome = 'success' and b.agent_turn_id = e.agent_turn_id) b on true);
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
