-- Lookups by key whose plan does not depend on statistics: OFFSET 0 keeps the caller's conditions outside, so that only
-- the key's own index fits. Without it, a planner that believes a partial index to be nearly empty scans that index
-- once per row of a batch.

create or replace function state.head(p_project_id text, p_agent_id text)
returns setof state.agent_state_head language sql stable as $$
  select * from state.agent_state_head h where h.project_id = p_project_id and h.agent_id = p_agent_id offset 0
$$;

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
