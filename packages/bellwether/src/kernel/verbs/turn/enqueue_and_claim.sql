-- Enqueue by a process that has a worker with room: if a turn of the worker's target is leased, the worker claims in
-- the same transaction (kernel/local-workers.ts). Both moves happen and are announced, and the claim takes the oldest
-- rows of the target first, as it always does. Returns the verdicts of the enqueue; then, if the worker claimed, a row
-- 'claimed' and the rows of the claim.
create or replace function state.enqueue_and_claim(p_turns state.new_turn[], p_target text, p_worker text, p_max int,
  p_resume_lease_seconds double precision)
returns table (what text, project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, inbox_id text,
  worker_target text, channel_id text, message_type state.message_type, payload state.payload, deaths int,
  recursion_depth int, traceparent text, correlation_id text, profile_id text, context_box_id text, output_box_id text,
  turn_deadline timestamptz, detail jsonb)
language plpgsql as $$
#variable_conflict use_column
declare
  v_verdict state.verdict;
  v_leased boolean := false;
begin
  for v_verdict in select * from state.enqueue(p_turns, true) loop
    what := v_verdict.what;
    project_id := v_verdict.project_id;
    agent_id := v_verdict.agent_id;
    agent_turn_id := v_verdict.agent_turn_id;
    turn_epoch := v_verdict.turn_epoch;
    inbox_id := v_verdict.inbox_id;
    worker_target := v_verdict.worker_target;
    channel_id := v_verdict.channel_id;
    detail := v_verdict.detail;
    v_leased := v_leased or what in ('leased', 'all_leased') and worker_target = p_target;
    return next;
  end loop;
  if not v_leased then return; end if;
  what := 'claimed';
  return next;
  return query select * from state.claim(p_target, p_worker, p_max, p_resume_lease_seconds);
end $$;
