-- W2.3: a worker that died between receipt and resume leaves its ledger rows 'processing'. Each tick takes expired leases back to
-- 'pending'; reconcile hands turns whose waits are all settled to a worker that is alive.

create or replace function state.requeue_expired_resume_ledgers()
returns int language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set enable_material = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := state.now();
  v_rows int;
begin
  update state.turn_resume_ledger l set status = 'pending', lease_expires_at = null
  where (l.agent_turn_id, l.tool_call_id) in (
    select e.agent_turn_id, e.tool_call_id from state.turn_resume_ledger e
    where e.status = 'processing' and e.lease_expires_at < v_now limit 1000 for update skip locked);
  get diagnostics v_rows = row_count;
  return v_rows;
end $$;

-- The same answer as claim's 'resume' rows.
create or replace function state.reconcile(p_target text, p_worker text, p_max int, p_resume_lease_seconds double precision)
returns table (what text, project_id text, agent_id text, agent_turn_id text, turn_epoch bigint, inbox_id text, worker_target text,
  channel_id text, message_type state.message_type, payload state.payload, attempts int, recursion_depth int, traceparent text, correlation_id text,
  profile_id text, context_box_id text, output_box_id text, turn_deadline timestamptz, detail jsonb)
language plpgsql
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off set enable_material = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_turns text[];
begin
  v_turns := array(
    select h.active_agent_turn_id from state.turn_resume_ledger l
    join state.agent_inbox i on i.agent_turn_id = l.agent_turn_id and i.message_type in ('turn', 'ui_action')
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where l.status = 'pending' and h.worker_target = p_target and h.status = 'suspended' and h.waiting_tool_count = 0
      and h.active_agent_turn_id = l.agent_turn_id and h.turn_epoch = l.turn_epoch
    limit p_max for no key update of h skip locked);
  if v_turns = '{}' then return; end if;
  v_now := state.now();

  update state.turn_resume_ledger l set status = 'processing', lease_expires_at = v_now + make_interval(secs => p_resume_lease_seconds), attempts = l.attempts + 1
  from unnest(v_turns) t where l.agent_turn_id = t and l.status = 'pending';

  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after, created_at)
  select distinct 'resume_replay', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, 'resume lease expired',
    jsonb_build_object('claimed_by', i.claimed_by), jsonb_build_object('claimed_by', p_worker), v_now
  from unnest(v_turns) t join state.agent_inbox i on i.agent_turn_id = t and i.message_type in ('turn', 'ui_action');

  return query
  select distinct 'resume', i.project_id, i.agent_id, i.agent_turn_id, h.turn_epoch, i.inbox_id, null::text, h.active_channel_id, i.message_type, i.payload,
    i.attempts, i.recursion_depth, i.traceparent, i.correlation_id, h.profile_id, h.context_box_id, h.output_box_id, h.turn_deadline, null::jsonb
  from unnest(v_turns) t join state.agent_inbox i on i.agent_turn_id = t and i.message_type in ('turn', 'ui_action')
  join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
  where h.active_agent_turn_id = t and h.status = 'suspended' and h.waiting_tool_count = 0;
end $$;
