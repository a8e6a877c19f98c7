-- The PMO ends the turns that no worker will end. It reads overdue turns without locks; the locking statement checks
-- that the head has not changed since (turn, epoch, status, updated_at), so that a beat in between keeps its turn.
-- Locked heads are skipped, because another session works on them. A call that arrives after valid_until was made
-- before a pause and does nothing (W2.10). The length of p_card_ids limits how many turns are ended at once. The first
-- row, 'looked', says whether other rules have work (state.silent_heads).
-- Settings: {dispatched_timeout_seconds, max_queue_seconds, active_reap_seconds, suspended_reap_seconds,
-- inbox_processing_timeout_seconds, dispatched_retry_seconds, idle_seconds, max_deaths, watching_since, valid_until}.
create or replace function state.reap(p_settings json, p_card_ids text[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_silent record;
  v_overdue state.overdue[];
  v_endings state.ending[];
  v_one state.ending;
begin
  if v_now > (p_settings ->> 'valid_until')::timestamptz then return; end if;
  select * into v_silent from state.silent_heads(v_now, p_settings);
  return query select 'looked', null::text, null::text, null::text, null::bigint, null::text, null::text, null::text,
    jsonb_build_object('unstarted', v_silent.unstarted, 'idle', v_silent.idle);
  v_overdue := array(select o from state.overdue(v_now, p_settings, v_silent.tids, cardinality(p_card_ids)) o);
  if v_overdue = '{}' then return; end if;

  select array_agg(row(l.project_id, l.agent_id, l.agent_turn_id, true, l.outcome, l.error,
      p_card_ids[l.place], null, l.error, l.status = 'suspended', l.holds,
      'watchdog', case l.error
        when 'turn_deadline' then 'the turn reached its deadline'
        when 'dispatch_timeout' then 'no worker started the turn in time'
        when 'timeout_reaped_by_watchdog' then 'its worker stopped sending beats, and no worker took the turn over'
        when 'max_deaths' then 'its workers died while they ran it, as often as worker.max_deaths allows'
        when 'suspended_unresumable' then 'it waited for results that did not arrive'
        end, l.tid)::state.ending), array_agg(l.overdue)
  into v_endings, v_overdue from (
    select l.*, row_number() over (order by l.project_id, l.agent_id) as place from (
      select o.*, o as overdue, h.holds, h.ctid as tid from unnest(v_overdue) o
      join state.agent_state_head h on h.project_id = o.project_id and h.agent_id = o.agent_id
      where h.active_agent_turn_id = o.agent_turn_id and h.turn_epoch = o.turn_epoch and h.status = o.status
        and h.updated_at = o.updated_at
      order by h.project_id, h.agent_id
      for no key update of h skip locked) l) l;
  if v_endings is null then return; end if;

  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
    created_at)
  select 'reap', o.project_id, o.agent_id, o.agent_turn_id, o.turn_epoch + 1, o.error,
    jsonb_build_object('status', o.status, 'turn_epoch', o.turn_epoch, 'updated_at', o.updated_at),
    jsonb_build_object('status', 'idle', 'turn_epoch', o.turn_epoch + 1, 'outcome', o.outcome), v_now
  from unnest(v_overdue) o;

  begin
    return query select * from state.finish_turn_idle(v_endings);
  exception when others then
    -- One head that cannot be ended must not keep the others alive: end each alone and record the failure.
    foreach v_one in array v_endings loop
      begin
        return query select * from state.finish_turn_idle(array[v_one]);
      exception when others then
        insert into state.interventions (kind, project_id, agent_id, agent_turn_id, reason, after, created_at)
        values ('reap_failed', v_one.project_id, v_one.agent_id, v_one.agent_turn_id, sqlerrm,
          jsonb_build_object('sqlstate', sqlstate), v_now);
      end;
    end loop;
  end;
end $$;
