-- Enqueues the tasks of an open batch. The process that forked the batch calls it at once, and the PMO calls it for
-- tasks that were left behind. Both may run at the same time: the ids of a task's turn come from the batch, so the
-- second caller finds a duplicate. It locks heads first (enqueue), then the batch. If the batch was closed in between,
-- everything is rolled back, so that no child starts for a parent that has ended (hazard 17).

-- Returns the leases, as a brief enqueue does, and one row for each task that could not be enqueued: 'put_off' or
-- 'failed', with the reason.
create or replace function state.dispatch_tasks(p_batch_id text, p_positions int[], p_retry_seconds double precision,
  p_max_tries int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_batch state.batches;
  v_above text[];
  v_bad_positions int[];
  v_bad_reasons text[];
  v_turns state.new_turn[];
  v_verdicts state.verdict[];
begin
  select * into v_batch from state.batches b where b.batch_id = p_batch_id;
  if v_batch.status is distinct from 'open' then return; end if;

  -- The agents that wait for this batch, directly or through other batches: none of them can run one of its tasks.
  with recursive above (turn, agent, level) as (
    select v_batch.parent_agent_turn_id, v_batch.parent_agent_id, 1
    union all
    select b.parent_agent_turn_id, b.parent_agent_id, a.level + 1 from above a
    join state.batch_tasks t on t.agent_turn_id = a.turn join state.batches b on b.batch_id = t.batch_id
    where a.level < 1000
  )
  select array_agg(a.agent) into v_above from above a where a.agent is not null;

  -- Checked before anything is created for these tasks. Enqueue checks whether a reused agent exists.
  select array_agg(t.position), array_agg(t.reason) into v_bad_positions, v_bad_reasons from (
    select t.position, case
        when v_batch.recursion_depth > (select l.max_recursion_depth from state.limits l)
          then 'recursion_depth_exceeded'
        when t.target_strategy = 'reuse' then case when t.target_ref = any (v_above) then 'reuse_of_ancestor' end
        when t.target_strategy = 'new' and not exists (select from resource.profiles f
          where f.project_id = v_batch.project_id and f.profile_id = t.target_ref) then 'unknown_profile'
        when t.target_strategy = 'clone' and not exists (select from resource.project_agents a
          where a.project_id = v_batch.project_id and a.agent_id = t.target_ref)
          then 'unknown_agent' end as reason
    from state.batch_tasks t where t.batch_id = p_batch_id and t.position = any (p_positions)
      and t.status = 'waiting') t
  where t.reason is not null;

  -- New agents and clones. A clone has the profile, target and deadline of its source, and a copy of its box, which it
  -- reads: that is what the caller asked for (T9.3).
  if exists (select from state.batch_tasks t where t.batch_id = p_batch_id and t.position = any (p_positions)
    and t.target_strategy <> 'reuse') then
    with born as materialized (
      select t.position, t.agent_id, t.output_box_id, t.target_strategy,
        coalesce(f.worker_target, a.worker_target) as worker_target, coalesce(f.profile_id, a.profile_id) as profile_id,
        h.output_box_id as source_box_id,
        coalesce(h.turn_deadline_seconds, state.seconds(f.spec -> 'turn_deadline_seconds')) as turn_deadline_seconds
      from state.batch_tasks t
      left join resource.profiles f on t.target_strategy = 'new' and f.project_id = v_batch.project_id
        and f.profile_id = t.target_ref
      left join resource.project_agents a on t.target_strategy = 'clone' and a.project_id = v_batch.project_id
        and a.agent_id = t.target_ref
      left join lateral state.head(a.project_id, a.agent_id) h on true
      where t.batch_id = p_batch_id and t.position = any (p_positions) and t.status = 'waiting'
        and t.target_strategy in ('new', 'clone')
        and t.position <> all (coalesce(v_bad_positions, '{}'))
    ), listed as (
      insert into resource.project_agents (project_id, agent_id, profile_id, worker_target, metadata, memory)
      select v_batch.project_id, agent_id, profile_id, worker_target, jsonb_build_object('batch_id', p_batch_id,
        'position', position), case target_strategy when 'clone' then 'box'
          else state.profile_memory(v_batch.project_id, profile_id) end from born order by agent_id
      on conflict do nothing
      returning agent_id
    ), heads as (
      -- The session that inserts the roster row creates the head.
      insert into state.agent_state_head (project_id, agent_id, profile_id, worker_target, output_box_id, home_box_id,
        turn_deadline_seconds, updated_at, awake)
      select v_batch.project_id, agent_id, b.profile_id, b.worker_target, b.output_box_id, b.output_box_id,
        b.turn_deadline_seconds, v_now, false from born b join listed using (agent_id) order by agent_id
    ), boxes as (
      insert into cards.boxes (box_id, project_id, kind, agent_id, created_at)
      select output_box_id, v_batch.project_id, 'output', agent_id, v_now from born order by output_box_id
      on conflict do nothing
      returning box_id
    )
    insert into cards.box_cards (box_id, card_id)
    select b.output_box_id, c.card_id from born b join boxes x on x.box_id = b.output_box_id
    join cards.box_cards c on c.box_id = b.source_box_id
    where b.target_strategy = 'clone' order by b.position, c.position;
  end if;

  v_turns := array(
    select row(t.inbox_id, t.agent_turn_id, v_batch.project_id,
      case when t.target_strategy = 'reuse' then t.target_ref else t.agent_id end, v_batch.channel_id, null,
        v_batch.recursion_depth, v_batch.traceparent,
      v_batch.parent_step_id, v_batch.parent_agent_id, v_batch.parent_agent_turn_id, v_batch.parent_step_id,
      jsonb_strip_nulls(jsonb_build_object('batch_id', p_batch_id, 'position', t.position, 'target_ref', t.target_ref,
        'context_box_id', t.context_box_id, 'budget_id', t.budget_id)), null, t.context_box_id, null)::state.new_turn
    from state.batch_tasks t where t.batch_id = p_batch_id and t.position = any (p_positions) and t.status = 'waiting'
      and t.position <> all (coalesce(v_bad_positions, '{}')) order by t.position);
  v_verdicts := array(select v from state.enqueue(v_turns, true) v);

  perform from state.batches b where b.batch_id = p_batch_id and b.status = 'open' for no key update;
  if not found then
    raise exception 'batch % was closed during the dispatch', p_batch_id using errcode = 'BW006';
  end if;

  if exists (select from unnest(v_verdicts) v
    where v.what not in ('all_leased', 'enqueued', 'leased', 'duplicate')) then
    select v_bad_positions || array_agg(t.position), v_bad_reasons || array_agg(v.what) into v_bad_positions,
      v_bad_reasons
    from unnest(v_verdicts) v join state.batch_tasks t on t.batch_id = p_batch_id and t.position = any (p_positions)
      and t.inbox_id = v.inbox_id
    where v.what not in ('all_leased', 'enqueued', 'leased', 'duplicate');
  end if;
  -- All tasks that still wait and could be enqueued. A task never returns to waiting, so all of them were among the
  -- turns above.
  update state.batch_tasks t set status = 'dispatched', tries = t.tries + 1, error = null, next_try_at = null
  where t.batch_id = p_batch_id and t.position = any (p_positions) and t.status = 'waiting'
    and t.position <> all (coalesce(v_bad_positions, '{}'));
  return query select * from unnest(v_verdicts) v where v.what in ('all_leased', 'leased');

  if v_bad_positions is not null then
    return query select * from state.put_off_tasks(p_batch_id, v_bad_positions, v_bad_reasons, p_retry_seconds,
      p_max_tries);
  end if;
end $$;

-- Tasks that could not be enqueued: retried after a growing pause if that may help (the roster may still be loading),
-- otherwise failed.
create or replace function state.put_off_tasks(p_batch_id text, p_positions int[], p_reasons text[],
  p_retry_seconds double precision, p_max_tries int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_failed text[];
begin
  perform from state.batches b where b.batch_id = p_batch_id and b.status = 'open' for no key update;
  if not found then return; end if;
  return query
  update state.batch_tasks t set tries = t.tries + 1, error = p.reason,
    status = case when t.tries + 1 >= p_max_tries
      or p.reason not in ('unknown_agent', 'unknown_profile', 'dispatch_failed') then 'failed' else 'waiting' end,
    next_try_at = v_now + make_interval(secs => p_retry_seconds * 2 ^ least(t.tries, 10))
  from unnest(p_positions, p_reasons) as p (position, reason)
  where t.batch_id = p_batch_id and t.position = p.position and t.status = 'waiting'
  returning case t.status when 'failed' then 'failed' else 'put_off' end, null::text, t.agent_id, t.agent_turn_id,
    null::bigint, t.inbox_id, null::text, null::text,
    jsonb_build_object('position', t.position, 'reason', t.error);
  v_failed := array(select t.agent_turn_id from state.batch_tasks t
    where t.batch_id = p_batch_id and t.position = any (p_positions) and t.status = 'failed' and t.outcome is null);
  if v_failed = '{}' then return; end if;
  update state.batch_tasks t set outcome = 'failed' where t.batch_id = p_batch_id and t.agent_turn_id = any (v_failed);
  update state.batches b set open_count = b.open_count - cardinality(v_failed),
    failed_count = b.failed_count + cardinality(v_failed), next_look_at = v_now
  where b.batch_id = p_batch_id;
  perform state.close_budgets(v_failed);
end $$;
