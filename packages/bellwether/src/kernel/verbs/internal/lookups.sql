-- Lookups by key whose plan does not depend on statistics: OFFSET 0 or LIMIT keeps the caller's conditions outside, so
-- that only the key's own index fits. Without it, a planner that believes a partial index to be nearly empty scans that
-- index once per row of a batch.

-- The newest version of a head. While a transaction elsewhere holds a snapshot, the dead versions stay in the index;
-- the descending order passes only those of the last eight epochs (decision 0014).
create or replace function state.head(p_project_id text, p_agent_id text)
returns setof state.agent_state_head language sql stable as $$
  select * from state.agent_state_head h where h.project_id = p_project_id and h.agent_id = p_agent_id
  order by h.epoch_group desc limit 1
$$;

-- Where the newest version of a head is, for an UPDATE of a head that the caller has locked.
create or replace function state.head_ctid(p_project_id text, p_agent_id text)
returns setof tid language sql stable as $$
  select h.ctid from state.agent_state_head h where h.project_id = p_project_id and h.agent_id = p_agent_id
  order by h.epoch_group desc limit 1
$$;

-- Locks heads, whatever their status, in one order (hazard 8), and returns where they are, in the order of the
-- arguments; null if there is none. The caller reads them in a later statement (hazard 1). A locked head stays where it
-- is until the caller updates it.
create or replace function state.lock_heads(p_projects text[], p_agents text[]) returns tid[] language plpgsql as $$
declare
  v_tids tid[];
begin
  select array_agg(l.tid order by l.ord) into v_tids from (
    select a.ord, h.tid
    from (select * from unnest(p_projects, p_agents) with ordinality as a (project_id, agent_id, ord)
      order by a.project_id, a.agent_id) a
    left join lateral (
      select h.ctid as tid from state.agent_state_head h where h.project_id = a.project_id and h.agent_id = a.agent_id
      order by h.epoch_group desc limit 1 for no key update) h on true) l;
  return v_tids;
end $$;

-- The inbox row that started a turn.
create or replace function state.turn_row(p_agent_turn_id text)
returns setof state.agent_inbox language sql stable as $$
  select * from state.agent_inbox i where i.agent_turn_id = p_agent_turn_id
    and i.message_type in ('turn', 'ui_action') offset 0
$$;

create or replace function state.inbox_row(p_inbox_id text)
returns setof state.agent_inbox language sql stable as $$
  select * from state.agent_inbox i where i.inbox_id = p_inbox_id offset 0
$$;
