-- W2.1: the rows of a silent worker return to pending with a new epoch: the next worker takes the turn over from its
-- cards, and the old worker is fenced out (hazard 2). Suspended turns are exempt, because no worker runs them. A turn
-- that p_max_attempts workers have tried (attempts counts the takeovers) is left for the PMO to reap. Silence counts
-- only since p_watching_since; a call that arrives after p_valid_until does nothing (W2.10).
create or replace function state.reclaim(p_target text, p_timeout_seconds double precision, p_max_attempts int,
  p_watching_since timestamptz, p_valid_until timestamptz, p_limit int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_cutoff timestamptz := v_now - make_interval(secs => p_timeout_seconds);
  v_silent text[];
  v_projects text[];
  v_agents text[];
  v_holds boolean;
begin
  if p_watching_since > v_cutoff or v_now > p_valid_until then return; end if;

  select array_agg(s.inbox_id), array_agg(s.project_id), array_agg(s.agent_id), bool_or(s.holds) into v_silent,
    v_projects, v_agents, v_holds from (
    select i.inbox_id, h.project_id, h.agent_id, h.holds from state.agent_inbox i
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where i.worker_target = p_target and i.status = 'processing' and coalesce(i.processed_at, i.created_at) < v_cutoff
      and not (h.active_agent_turn_id is not distinct from i.agent_turn_id and h.status in ('suspended', 'dispatched'))
      and not (i.attempts + 1 >= p_max_attempts and h.active_agent_turn_id is not distinct from i.agent_turn_id)
    limit p_limit for no key update of h skip locked) s;
  if v_silent is null then return; end if;

  return query
  with silent as materialized (
    select i.inbox_id, i.project_id, i.agent_id, i.agent_turn_id, i.claimed_by, i.processed_at, i.attempts, h.turn_epoch
    from unnest(v_silent) s join state.agent_inbox i on i.inbox_id = s
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where i.status = 'processing' and coalesce(i.processed_at, i.created_at) < v_cutoff
      and i.message_type in ('turn', 'ui_action') and h.status = 'running' and h.active_agent_turn_id = i.agent_turn_id
      and h.turn_epoch = i.turn_epoch
  ), bumped as (
    -- Not updated_at: only a worker's sign of life counts, so that W2.6 ends a turn that no worker takes over.
    update state.agent_state_head h set turn_epoch = h.turn_epoch + 1
    from silent s where h.project_id = s.project_id and h.agent_id = s.agent_id
  ), noted as (
    insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
      created_at)
    select 'reclaim', project_id, agent_id, agent_turn_id, turn_epoch + 1,
      'worker silent for ' || p_timeout_seconds || ' s',
      jsonb_build_object('status', 'running', 'claimed_by', claimed_by, 'turn_epoch', turn_epoch,
      'processed_at', processed_at),
      jsonb_build_object('status', 'running', 'inbox', 'pending', 'turn_epoch', turn_epoch + 1,
      'attempts', attempts + 1), v_now from silent
  )
  update state.agent_inbox i set status = 'pending', turn_epoch = s.turn_epoch + 1, attempts = i.attempts + 1,
    processed_at = null, archived_at = null, claimed_by = null
  from silent s where i.inbox_id = s.inbox_id
  returning 'reclaimed', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, i.inbox_id, i.worker_target,
    i.channel_id, null::jsonb;

  -- The silent worker may have spent what it reserved: charged in full (hazard 18).
  if v_holds then
    perform state.charge_reservations(array(select i.agent_turn_id from unnest(v_silent) s
      join state.agent_inbox i on i.inbox_id = s
      where i.status = 'pending' and i.message_type in ('turn', 'ui_action')));
  end if;

  -- Receipts return to pending; a row whose turn is not its agent's becomes an error.
  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
    created_at)
  select 'reclaim', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch,
    'row taken and silent for ' || p_timeout_seconds || ' s',
    jsonb_build_object('inbox', i.status, 'claimed_by', i.claimed_by, 'processed_at', i.processed_at),
    jsonb_build_object('inbox', case when i.message_type in ('turn', 'ui_action') then 'error'
      else 'pending' end), v_now
  from unnest(v_silent) s join state.agent_inbox i on i.inbox_id = s
  where i.status = 'processing' and coalesce(i.processed_at, i.created_at) < v_cutoff;
  return query
  update state.agent_inbox i set
    status = case when i.message_type in ('turn', 'ui_action') then 'error' else 'pending' end,
    error = case when i.message_type in ('turn', 'ui_action')
      then 'protocol_error: not the turn and epoch of this agent' end,
    processed_at = null, archived_at = null, claimed_by = null
  from unnest(v_silent) s where i.inbox_id = s and i.status = 'processing'
    and coalesce(i.processed_at, i.created_at) < v_cutoff
  returning case when i.status = 'pending' then 'reclaimed' else 'refused' end, i.project_id, i.agent_id,
    i.agent_turn_id, i.turn_epoch, i.inbox_id, i.worker_target, i.channel_id, null::jsonb;
end $$;
