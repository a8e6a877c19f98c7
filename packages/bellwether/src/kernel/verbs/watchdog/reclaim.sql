-- W2.1: the rows of a silent worker return to pending with a new epoch: the next worker takes the turn over from its
-- cards, and the old worker is fenced out (hazard 2). Suspended turns are exempt, because no worker runs them. Silence
-- counts only since p_watching_since; a call that arrives after p_valid_until does nothing (W2.10).
-- A death is charged only to a turn that was alone in its worker. If several turns shared the worker, none is
-- charged: the shared deaths of each grow by one, and claim runs it beside fewer turns, until the culprit is alone. If
-- the worker was shutting down, or the turn waited for a person's approval, nothing is charged. The PMO reaps a turn
-- with p_max_deaths charged deaths.
create or replace function state.reclaim(p_target text, p_timeout_seconds double precision, p_max_deaths int,
  p_watching_since timestamptz, p_valid_until timestamptz, p_limit int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_cutoff timestamptz := v_now - make_interval(secs => p_timeout_seconds);
  v_silent text[];
  v_charged text[];
  v_sharing text[];
  v_holds boolean;
begin
  if p_watching_since > v_cutoff or v_now > p_valid_until then return; end if;

  with silent as materialized (
    select i.inbox_id, i.agent_turn_id, i.claimed_by, i.processed_at, h.holds, h.shared_deaths, w.shared_death_at,
      -- A turn whose program only waits for a person does not kill its worker. The deadline bounds the wait.
      w.drained_at is not null or exists (select from state.approvals a where a.agent_turn_id = i.agent_turn_id
        and a.status = 'waiting' and a.deadline > v_now) as blameless
    from (
      select t.inbox_id from state.agent_state_head h cross join lateral state.turn_row(h.active_agent_turn_id) t
      where h.awake and h.worker_target = p_target and h.status = 'running' and h.updated_at < v_cutoff
        and t.status = 'processing'
      union all
      select q.inbox_id from state.queue q where q.worker_target = p_target and q.status = 'processing') p
    cross join lateral state.inbox_row(p.inbox_id) i
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    left join state.workers w on w.worker_id = i.claimed_by
    where i.status = 'processing' and coalesce(i.processed_at, i.created_at) < v_cutoff
      and not (h.active_agent_turn_id is not distinct from i.agent_turn_id and h.status in ('suspended', 'dispatched'))
      and not (i.deaths >= p_max_deaths and h.active_agent_turn_id is not distinct from i.agent_turn_id)
      -- The turns of a dead worker have different last beats. Reclaim them together, when the worker's own last sign
      -- of life is old enough. If the worker is alive and only stopped beating for this turn, do not wait for it.
      and (w.seen_at is null or w.seen_at < v_cutoff
        or w.seen_at > i.processed_at + make_interval(secs => p_timeout_seconds / 3))
    limit p_limit for no key update of h skip locked
  ), neighbours as (
    select i.claimed_by, count(*) as turns from state.agent_state_head h
    cross join lateral state.turn_row(h.active_agent_turn_id) i
    where h.awake and h.worker_target = p_target and h.status = 'running' and i.status = 'processing'
      and i.claimed_by in (select s.claimed_by from silent s)
    group by 1
  ), judged as (
    select s.*, not s.blameless and (coalesce(c.turns, 1) <= 1
        and coalesce(s.shared_death_at < s.processed_at, true)
      -- After this many shared deaths a turn is alone in any worker. The limit only bounds the retries if it is not.
      or s.shared_deaths >= 10) as charged
    from silent s left join neighbours c on c.claimed_by = s.claimed_by
  )
  select array_agg(j.inbox_id), coalesce(array_agg(j.inbox_id) filter (where j.charged), '{}'),
    coalesce(array_agg(j.inbox_id) filter (where not j.charged and not j.blameless), '{}'), bool_or(j.holds)
  into v_silent, v_charged, v_sharing, v_holds from judged j;
  if v_silent is null then return; end if;

  -- The last death: only count it. The row does not return to pending, and the PMO ends the turn. Counting does not
  -- change the head, so a watchdog that counted it just before the lock above is seen only here.
  update state.agent_inbox i set deaths = i.deaths + 1
  from unnest(v_charged) s cross join lateral state.inbox_row(s) r
  where i.inbox_id = s and r.deaths = p_max_deaths - 1 and r.message_type in ('turn', 'ui_action');

  return query
  with silent as materialized (
    select i.inbox_id, i.project_id, i.agent_id, i.agent_turn_id, i.claimed_by, i.processed_at,
      i.deaths + (i.inbox_id = any (v_charged))::int as deaths, h.turn_epoch,
      h.shared_deaths + (i.inbox_id = any (v_sharing))::int as shared_deaths
    from unnest(v_silent) s join state.agent_inbox i on i.inbox_id = s
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where i.status = 'processing' and coalesce(i.processed_at, i.created_at) < v_cutoff
      and i.message_type in ('turn', 'ui_action') and h.status = 'running' and h.active_agent_turn_id = i.agent_turn_id
      and h.turn_epoch = i.turn_epoch and i.deaths < p_max_deaths
  ), bumped as (
    -- Not updated_at: only a worker's sign of life counts, so that W2.6 ends a turn that no worker takes over.
    update state.agent_state_head h set turn_epoch = h.turn_epoch + 1, shared_deaths = s.shared_deaths
    from silent s cross join lateral state.head_ctid(s.project_id, s.agent_id) as at (tid) where h.ctid = at.tid
  ), shared as (
    update state.workers w set shared_death_at = v_now
    from (select distinct s.claimed_by from silent s where s.inbox_id = any (v_sharing)) s
    where w.worker_id = s.claimed_by
  ), announced as (
    insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
    select s.project_id, e.subject, 'state', e.payload, s.agent_turn_id, v_now
    from silent s cross join lateral state.reclaimed_event(s.inbox_id) e
  ), noted as (
    insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
      created_at)
    select 'reclaim', project_id, agent_id, agent_turn_id, turn_epoch + 1,
      'worker silent for ' || p_timeout_seconds || ' s',
      jsonb_build_object('status', 'running', 'claimed_by', claimed_by, 'turn_epoch', turn_epoch,
      'processed_at', processed_at),
      jsonb_build_object('status', 'running', 'inbox', 'pending', 'turn_epoch', turn_epoch + 1,
      'deaths', deaths, 'shared_deaths', shared_deaths), v_now from silent
  )
  update state.agent_inbox i set status = 'pending', turn_epoch = s.turn_epoch + 1, deaths = s.deaths,
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
  v_silent := array(
    select i.inbox_id from unnest(v_silent) s join state.agent_inbox i on i.inbox_id = s
    where i.status = 'processing' and coalesce(i.processed_at, i.created_at) < v_cutoff
      and not (i.message_type in ('turn', 'ui_action') and i.deaths >= p_max_deaths));
  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
    created_at)
  select 'reclaim', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch,
    'row taken and silent for ' || p_timeout_seconds || ' s',
    jsonb_build_object('inbox', i.status, 'claimed_by', i.claimed_by, 'processed_at', i.processed_at),
    jsonb_build_object('inbox', case when i.message_type in ('turn', 'ui_action') then 'error'
      else 'pending' end), v_now
  from unnest(v_silent) s join state.agent_inbox i on i.inbox_id = s;
  return query
  update state.agent_inbox i set
    status = case when i.message_type in ('turn', 'ui_action') then 'error' else 'pending' end,
    error = case when i.message_type in ('turn', 'ui_action')
      then 'protocol_error: not the turn and epoch of this agent' end,
    processed_at = null, archived_at = null, claimed_by = null
  from unnest(v_silent) s where i.inbox_id = s
  returning case when i.status = 'pending' then 'reclaimed' else 'refused' end, i.project_id, i.agent_id,
    i.agent_turn_id, i.turn_epoch, i.inbox_id, case when i.status = 'pending' then i.worker_target end, i.channel_id,
    null::jsonb;
end $$;

-- A worker that shuts down hands its turns back: the same move as a reclaim, at once, and no death is charged. A lost
-- fence is skipped. Items: {project_id, agent_id, agent_turn_id, turn_epoch}.
create or replace function state.hand_back(p_items json, p_worker text)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_turns text[];
begin
  v_turns := array(
    select h.active_agent_turn_id from state.agent_state_head h
    join json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint)
      on h.project_id = x.project_id and h.agent_id = x.agent_id
    where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch and h.status = 'running'
    order by h.project_id, h.agent_id for no key update of h);
  v_now := state.now();

  return query
  with given as materialized (
    select i.inbox_id, i.project_id, i.agent_id, i.agent_turn_id, i.deaths, h.turn_epoch
    from unnest(v_turns) t cross join lateral state.turn_row(t) i
    cross join lateral state.head(i.project_id, i.agent_id) h
    where i.status = 'processing'
  ), bumped as (
    update state.agent_state_head h set turn_epoch = h.turn_epoch + 1
    from given g cross join lateral state.head_ctid(g.project_id, g.agent_id) as at (tid) where h.ctid = at.tid
  ), noted as (
    insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
      created_at)
    select 'reclaim', project_id, agent_id, agent_turn_id, turn_epoch + 1, 'worker shut down',
      jsonb_build_object('status', 'running', 'claimed_by', p_worker, 'turn_epoch', turn_epoch),
      jsonb_build_object('status', 'running', 'inbox', 'pending', 'turn_epoch', turn_epoch + 1, 'deaths', deaths),
      v_now from given
  ), announced as (
    insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
    select g.project_id, e.subject, 'state', e.payload, g.agent_turn_id, v_now
    from given g cross join lateral state.reclaimed_event(g.inbox_id) e
  )
  update state.agent_inbox i set status = 'pending', turn_epoch = g.turn_epoch + 1, processed_at = null,
    archived_at = null, claimed_by = null
  from given g where i.inbox_id = g.inbox_id
  returning 'reclaimed', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, i.inbox_id, i.worker_target,
    i.channel_id, null::jsonb;
  perform state.charge_reservations(v_turns);
end $$;

-- The state event of a reclaim (T2.5): the turn stays running with a new epoch until a worker takes it over. Called in
-- the statement that makes the move, so it reads the inbox row as it was before.
create or replace function state.reclaimed_event(p_inbox_id text, out subject text, out payload jsonb)
language sql stable as $$
  select 'bw.v1.' || i.project_id || '.' || i.channel_id || '.evt.agent.' || i.agent_id || '.state',
    jsonb_strip_nulls(jsonb_build_object('agent_turn_id', i.agent_turn_id, 'agent_id', i.agent_id, 'status', 'running',
      'turn_epoch', i.turn_epoch + 1, 'traceparent', state.trace_of(i.agent_turn_id, i.traceparent), 'metadata',
      jsonb_build_object('waiting_tool_count', 0, 'reclaimed', true)))
  from state.inbox_row(p_inbox_id) i
$$;
