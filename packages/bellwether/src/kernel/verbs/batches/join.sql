-- The joiner's view of unsettled batches. It counts ended children, closes a batch that is done, failed or past its
-- deadline, and returns the actions that are due: 'dispatch' (tasks are due), 'answer' (the parent waits), 'stop'
-- (children that are no longer needed), 'settled'. It locks no heads: the actions are verbs of their own and may be
-- repeated. It skips batches that another PMO has locked. The next look at a batch is due after a fiftieth of its age,
-- so that short batches are joined at once and long ones cost little, or later if many tasks are open and their speed
-- is known; 'look' returns when the next one is due. p_rung: batches to look at now, because a worker has ended its
-- last task of them. The length of p_edge_ids limits the number of batches.
create or replace function state.collect_batches(p_edge_ids text[], p_rung text[] default '{}')
returns table (what text, batch_id text, project_id text, turns text[], due_in_ms double precision)
language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_ids text[];
  v_undone text[];
  v_counted int;
  -- The first tasks usually end first: the verb looks at more only if all of a few have ended.
  v_window int := 8;
begin
  -- No wait for the disk: a lost count is repeated. Later writes that depend on it reach the disk after it.
  perform set_config('synchronous_commit', 'off', true);
  v_ids := array(
    -- A time in the future means that the clock was set back.
    select b.batch_id from state.batches b where b.settled_at is null
      and (b.next_look_at <= v_now or b.next_look_at > v_now + interval '10 seconds')
    order by b.next_look_at, b.batch_id limit cardinality(p_edge_ids) for no key update skip locked);
  if p_rung <> '{}' then
    v_ids := v_ids || array(
      select b.batch_id from state.batches b where b.batch_id = any (p_rung) and b.settled_at is null
        and b.batch_id <> all (v_ids)
      order by b.batch_id limit cardinality(p_edge_ids) - cardinality(v_ids) for no key update skip locked);
  end if;

  if v_ids <> '{}' then
    -- Ended children. The counter, read under the batch's lock, decides which child is the last (hazard 5). If a
    -- complete window has ended, there may be more.
    loop
      with ended as materialized (
        select t.batch_id, t.position, t.status, i.outcome, i.error, i.deliverable_card_id
        from unnest(v_ids) as v (id) join state.batches b on b.batch_id = v.id
        cross join lateral (
          select k.* from state.batch_tasks k where k.batch_id = v.id and k.status in ('dispatched', 'stopping')
          order by k.position
          limit case when b.status = 'open' and b.deadline > v_now
            and b.next_full_look_at between v_now and v_now + interval '10 seconds' then v_window end) t
        left join lateral state.turn_row(t.agent_turn_id) i on true
        -- A row that retention has removed has ended too.
        where i.ended_at is not null or i.inbox_id is null
      ), settled as (
        update state.batch_tasks t set outcome = case when t.status = 'stopping' then 'canceled'
          else coalesce(e.outcome, 'canceled') end, error = coalesce(t.error, e.error),
          deliverable_card_id = e.deliverable_card_id,
          status = case when t.status = 'stopping' or coalesce(e.outcome, 'canceled') = 'canceled' then 'canceled'
            when e.outcome = 'success' then 'done' else 'failed' end
        from ended e where t.batch_id = e.batch_id and t.position = e.position
      ), counted as (
        select e.batch_id, count(*)::int as counted, (count(*) filter (where e.outcome = 'success'))::int as done
        from ended e where e.status = 'dispatched' group by 1
      ), moved as (
        update state.batches b set open_count = b.open_count - c.counted, done_count = b.done_count + c.done,
          failed_count = b.failed_count + c.counted - c.done
        from counted c where b.batch_id = c.batch_id and b.status = 'open'
      )
      select coalesce(max(c.counted), 0) into v_counted from counted c;
      exit when v_counted < v_window;
      v_window := v_window * 8;
    end loop;

    update state.batches b set ended_at = v_now, status = case
        when b.fail_fast and b.failed_count > 0 or b.open_count = 0 and b.done_count = 0
        and b.task_count > 0 then 'failed'
        when b.open_count = 0 then 'done' else 'timeout' end
    from unnest(v_ids) as v (id) where b.batch_id = v.id and b.status = 'open'
      and (b.open_count = 0 or b.fail_fast and b.failed_count > 0 or b.deadline <= v_now);

    -- A closed batch does not wait for its remaining tasks. Its answer is final from here on, whatever the children
    -- still do.
    v_undone := array(select t.agent_turn_id from unnest(v_ids) as v (id) join state.batches b on b.batch_id = v.id
      join state.batch_tasks t on t.batch_id = v.id and t.status = 'waiting' where b.status <> 'open');
    update state.batch_tasks t set status = case t.status when 'waiting' then 'canceled' else 'stopping' end,
      outcome = 'canceled', error = case b.status when 'failed' then 'fail_fast' when 'timeout' then 'batch_deadline'
        else 'parent_ended' end
    from unnest(v_ids) as v (id) join state.batches b on b.batch_id = v.id
    where b.status <> 'open' and t.batch_id = v.id and t.status in ('waiting', 'dispatched');
    if v_undone <> '{}' then
      perform state.close_budgets(v_undone);
    end if;

    with joined as (
      update state.batches b set join_edge_id = p_edge_ids[v.ord] from unnest(v_ids) with ordinality as v (id, ord)
      where b.batch_id = v.id and b.status <> 'open' and b.join_edge_id is null
      returning b.*
    )
    insert into state.edges (edge_id, project_id, primitive, edge_phase, target_agent_id,
      target_agent_turn_id, correlation_id, trace_id, parent_step_id, recursion_depth, created_at)
    select join_edge_id, project_id, 'join', 'response', parent_agent_id, parent_agent_turn_id,
      coalesce(tool_call_id, batch_id), split_part(traceparent, '-', 2), parent_step_id, recursion_depth, v_now
        from joined;

    -- Decided from the rows: a parent that still waits has not been answered.
    return query
    select 'answer', b.batch_id, b.project_id, null::text[], null::double precision
    from unnest(v_ids) as v (id) join state.batches b on b.batch_id = v.id
    join state.turn_waiting_tools w on w.project_id = b.project_id and w.tool_call_id = b.tool_call_id
    where b.status <> 'open' and w.wait_status = 'waiting' and w.agent_turn_id = b.parent_agent_turn_id
      and w.turn_epoch = b.parent_turn_epoch
      and not exists (select from state.agent_inbox r
        where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
        and r.message_type in ('tool_result', 'timeout') offset 0);

    return query
    select 'stop', b.batch_id, b.project_id, array_agg(t.agent_turn_id order by t.position), null::double precision
    from unnest(v_ids) as v (id) join state.batches b on b.batch_id = v.id
    join state.batch_tasks t on t.batch_id = v.id and t.status = 'stopping'
    group by b.batch_id, b.project_id;

    return query
    select 'dispatch', b.batch_id, b.project_id, null::text[], null::double precision
    from unnest(v_ids) as v (id) join state.batches b on b.batch_id = v.id
    where b.status = 'open' and exists (select from state.batch_tasks t
      where t.batch_id = v.id and t.status = 'waiting' and t.next_try_at <= v_now offset 0);

    return query
    update state.batches b set next_look_at = v_now + case when b.status <> 'open' then interval '200 milliseconds'
        -- A shorter interval for the last few tasks, because the parent waits for them.
        else least(interval '1 second', greatest(case when b.open_count * 10 < b.task_count
          then interval '5 milliseconds'
          else interval '10 milliseconds' end, (v_now - b.created_at) / 50,
          -- No server ends more than 25,000 turns per second.
          b.open_count * interval '40 microseconds',
          -- Half of the time that the open tasks will take at the speed of the others, because a look costs as much as
          -- several turns.
          case when b.task_count - b.open_count >= 16 then (v_now - b.created_at)
            * least(0.25, b.open_count / 2.0 / (b.task_count - b.open_count)) end)) end,
      next_full_look_at = case when b.next_full_look_at > v_now then b.next_full_look_at
        else v_now + interval '1 second' end,
      settled_at = case when b.status <> 'open' and not exists (select from state.batch_tasks t
        where t.batch_id = v.id and t.status in ('waiting', 'dispatched', 'stopping') offset 0)
        and not exists (select from state.turn_waiting_tools w
          where w.project_id = b.project_id and w.tool_call_id = b.tool_call_id and w.wait_status = 'waiting'
          and not exists (select from state.agent_inbox r
            where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
            and r.message_type in ('tool_result', 'timeout') offset 0) offset 0) then v_now end
    from unnest(v_ids) as v (id) where b.batch_id = v.id
    returning case when b.settled_at is null then 'open' else 'settled' end, b.batch_id, b.project_id, null::text[],
      null::double precision;
  end if;

  return query
  select 'look', null::text, null::text, null::text[],
    extract(epoch from min(b.next_look_at) - state.now())::double precision * 1000
  from state.batches b where b.settled_at is null having count(*) > 0;
end $$;

-- The one receipt of a parent for its batch: the result of each task in order, with its deliverable as far as there is
-- room (the deliverable's card has all of it). It is built inside the database from rows that no longer change, so any
-- process may send it any number of times.
-- Items: {batch_id, inbox_id, card_id}.
create or replace function state.answer_batches(p_items json) returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_receipts json;
  -- A card holds 1 MB; less than half of that leaves room for names and JSON quotes.
  c_content_chars constant int := 400000;
begin
  -- No wait for the disk: a lost answer is sent again, because the parent still waits.
  perform set_config('synchronous_commit', 'off', true);
  select json_agg(json_build_object('project_id', b.project_id, 'tool_call_id', b.tool_call_id, 'message_type',
    'tool_result', 'status', s.status, 'agent_turn_id', b.parent_agent_turn_id, 'turn_epoch', b.parent_turn_epoch,
    'inbox_id', x.inbox_id, 'card_id', x.card_id, 'error', case when s.status not in ('success', 'partial')
      then json_build_object('code', 'batch_' || b.status,
        'message', b.done_count || ' of ' || b.task_count || ' tasks were done') end,
    'result', json_build_object('batch_id', b.batch_id, 'status', b.status, 'done', b.done_count,
      'failed', b.failed_count, 'tasks', t.tasks))) into v_receipts
  from json_to_recordset(p_items) as x (batch_id text, inbox_id text, card_id text)
  join state.batches b on b.batch_id = x.batch_id and b.status <> 'open' and b.tool_call_id is not null
  cross join lateral (select case b.status when 'done' then case when b.done_count = b.task_count then 'success'
    else 'partial' end
    when 'timeout' then case when b.done_count > 0 then 'partial' else 'timeout' end
    when 'canceled' then 'canceled' else 'failed' end as status) s
  cross join lateral (
    select json_agg(case when k.outcome = 'success' and k.status = 'done' and v.chars <= c_content_chars / b.task_count
      -- The common case, kept cheap: the parent waits while 1,000 of these are built.
      then json_build_object('position', k.position, 'status', k.outcome, 'agent_id', k.agent_id,
        'agent_turn_id', k.agent_turn_id, 'deliverable_card_id', k.deliverable_card_id, 'content', c.content)
      else (jsonb_strip_nulls(jsonb_build_object('position', k.position,
        -- A child that still runs when its batch closes counts as canceled, whatever it delivers later.
        'status', case when k.status in ('done', 'failed') then coalesce(k.outcome, k.status) else 'canceled' end,
        'error', case when k.outcome is distinct from 'success' then k.error end,
        'deliverable_card_id', case when k.status in ('done', 'failed') then k.deliverable_card_id end,
        'truncated', case when v.chars > c_content_chars / b.task_count then true end))
      || jsonb_build_object('agent_id', k.agent_id, 'agent_turn_id', k.agent_turn_id)
      || case when c.card_id is null then '{}' when v.chars <= c_content_chars / b.task_count
        then jsonb_build_object('content', v.content)
        else jsonb_build_object('content', left(v.content::text, c_content_chars / b.task_count)) end)::json end
        order by k.position) as tasks
    from state.batch_tasks k left join cards.cards c on c.card_id = k.deliverable_card_id
      and k.status in ('done', 'failed')
    -- Of a fallback the parent gets the text and the reason; the card has the tool results.
    cross join lateral (select case when k.outcome = 'success' then c.content
      else c.content #- '{fallback,tool_results}' #- '{fallback,last_text}' end as content) w
    cross join lateral (select w.content, length(w.content::text) as chars) v
    where k.batch_id = b.batch_id) t;
  if v_receipts is not null then
    return query select * from state.report(v_receipts);
  end if;
end $$;

-- Agents that were created for one task take no other after their batch is settled; retention removes them.
create or replace function state.retire_agents(p_batch_ids text[]) returns void language plpgsql as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);
  update resource.project_agents a set status = 'retired'
  from (
    select b.project_id, t.agent_id from state.batches b join state.batch_tasks t on t.batch_id = b.batch_id
    where b.batch_id = any (p_batch_ids) and t.target_strategy <> 'reuse' offset 0) made
  where a.project_id = made.project_id and a.agent_id = made.agent_id and a.status = 'active';
end $$;
