-- The edge of a request is its inbox row (decision 0015). `state.edges` stores the other edges; `state.execution_edges`
-- becomes a view of both (verbs/internal/edges.sql).
alter table state.agent_inbox add column source_agent_turn_id text;
alter table state.execution_edges rename to edges;
update state.agent_inbox i set source_agent_turn_id = e.source_agent_turn_id
from state.edges e
where e.edge_id = i.inbox_id and e.primitive = 'enqueue' and e.source_agent_turn_id is not null;
delete from state.edges e using state.agent_inbox i
where e.edge_id = i.inbox_id and e.primitive = 'enqueue' and i.message_type in ('turn', 'ui_action')
  and i.agent_turn_id is not null;
create index inbox_from_turn on state.agent_inbox (source_agent_turn_id) where source_agent_turn_id is not null;
