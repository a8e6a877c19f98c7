-- Who called whom. The request edge of a turn is its inbox row; receipts and joins have rows in state.edges.
create or replace view state.execution_edges as
select e.edge_id, e.project_id, e.primitive, e.edge_phase, e.source_agent_id, e.source_agent_turn_id, e.source_step_id,
  e.target_agent_id, e.target_agent_turn_id, e.correlation_id, e.trace_id, e.parent_step_id, e.recursion_depth,
  e.created_at
from state.edges e
union all
select i.inbox_id, i.project_id, 'enqueue', 'request', i.source_agent_id, i.source_agent_turn_id, i.source_step_id,
  i.agent_id, i.agent_turn_id, i.correlation_id, split_part(state.trace_of(i.agent_turn_id, i.traceparent), '-', 2),
  i.parent_step_id, i.recursion_depth, i.created_at
from state.agent_inbox i
where i.message_type in ('turn', 'ui_action') and i.agent_turn_id is not null;

create or replace trigger edges_are_insert_only instead of update on state.execution_edges
  for each row execute function state.refuse_rewrite();
