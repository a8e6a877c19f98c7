-- Holds of accounts: a limit of a provider suspends the turns of its account, without a worker, until a probe succeeds.
-- Exactly one call probes the account per window: the row of the hold names the turn before its call starts, and a
-- second call needs the next window, whatever happened to the first. No verb here waits for a head while it holds the
-- row of a hold, except for heads of suspended turns.

-- The pause after a window without a result: 30 s, 60 s, 120 s, … up to 15 minutes.
create or replace function state.hold_pause(p_window_no int) returns interval language sql immutable as $$
  select make_interval(secs => least(900, 30 * 2 ^ least(p_window_no - 1, 10)))
$$;

-- Whether the worker that probes an account still has its turn.
create or replace function state.probe_is_running(p_hold state.account_holds) returns boolean language sql stable as $$
  select exists (select from state.turn_row(p_hold.probe_turn_id) i
    cross join lateral state.head(i.project_id, i.agent_id) h
    where h.active_agent_turn_id = p_hold.probe_turn_id and h.turn_epoch = p_hold.probe_epoch
      and h.status = 'running')
$$;

-- Whether the turn that was chosen for the probe will still make its call: it is active, and not parked again.
create or replace function state.probe_is_coming(p_hold state.account_holds) returns boolean language sql stable as $$
  select exists (select from state.turn_row(p_hold.probe_turn_id) i
    cross join lateral state.head(i.project_id, i.agent_id) h where h.active_agent_turn_id = p_hold.probe_turn_id)
    and not exists (select from state.parked_turns p where p.agent_turn_id = p_hold.probe_turn_id)
$$;

-- The probe of the window had no result: the next window begins.
create or replace function state.next_window(p_account text, p_now timestamptz) returns timestamptz language sql as $$
  update state.account_holds a set window_no = a.window_no + 1, until = p_now + state.hold_pause(a.window_no + 1),
    probe_turn_id = null, probe_epoch = null, probe_at = null
  where a.account = p_account returning until
$$;

-- Before a call that is charged to an account: 'free' (no hold), 'probe' (the window is over and this call is its
-- probe), 'held' with the end of the window, or 'stale'.
create or replace function state.enter_account(p_project_id text, p_agent_id text, p_agent_turn_id text,
  p_turn_epoch bigint, p_account text)
returns table (what text, until timestamptz, reason text) language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_hold state.account_holds;
begin
  -- Nearly always: no lock, one lookup.
  if not exists (select from state.account_holds a where a.account = p_account and a.ended_at is null) then
    return query select 'free', null::timestamptz, null::text;
    return;
  end if;
  select * into v_hold from state.account_holds a where a.account = p_account and a.ended_at is null
  for no key update;
  v_now := state.now();
  if v_hold.account is null then
    return query select 'free', null::timestamptz, null::text;
  elsif not exists (select from state.head(p_project_id, p_agent_id) h where h.active_agent_turn_id = p_agent_turn_id
    and h.turn_epoch = p_turn_epoch and h.status = 'running') then
    return query select 'stale', null::timestamptz, null::text;
  elsif v_now < v_hold.until then
    return query select 'held', v_hold.until, v_hold.reason;
  elsif v_hold.probe_at is null and (v_hold.probe_turn_id is null or v_hold.probe_turn_id = p_agent_turn_id
    or not state.probe_is_coming(v_hold)) then
    update state.account_holds a set probe_turn_id = p_agent_turn_id, probe_epoch = p_turn_epoch, probe_at = v_now
    where a.account = p_account;
    return query select 'probe', null::timestamptz, null::text;
  elsif v_hold.probe_at is null or (state.probe_is_running(v_hold)
    and (v_hold.probe_turn_id, v_hold.probe_epoch) is distinct from (p_agent_turn_id, p_turn_epoch)) then
    return query select 'held', v_hold.until, v_hold.reason;
  else
    -- The probe was made, by this turn or by a worker that is gone, and nothing is known about it.
    return query select 'held', state.next_window(p_account, v_now), v_hold.reason;
  end if;
end $$;

-- A call reached a limit of its account: holds the account until the reset, at most p_max_seconds. Without a reset, for
-- the pause of the window. The report of the probe begins the next window; another report can only move its end.
create or replace function state.hold_account(p_agent_turn_id text, p_turn_epoch bigint, p_account text,
  p_until timestamptz, p_reason text, p_max_seconds double precision)
returns table (until timestamptz, reason text) language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_hold state.account_holds;
  v_until timestamptz;
begin
  insert into state.account_holds (account, reason, held_since, until, ended_at, ended_by)
  values (p_account, p_reason, state.now(), state.now(), state.now(), 'new') on conflict do nothing;
  select * into v_hold from state.account_holds a where a.account = p_account for no key update;
  v_now := state.now();
  -- A reset that has passed, or is absent, says nothing about the next try.
  v_until := least(v_now + make_interval(secs => p_max_seconds), case when p_until > v_now then p_until
    else v_now + state.hold_pause(case when v_hold.ended_at is null then v_hold.window_no + 1 else 1 end) end);
  if v_hold.ended_at is not null then
    update state.account_holds a set reason = p_reason, held_since = v_now, until = v_until, window_no = 1,
      probe_turn_id = null, probe_epoch = null, probe_at = null, ended_at = null, ended_by = null
    where a.account = p_account;
  elsif (v_hold.probe_turn_id, v_hold.probe_epoch) = (p_agent_turn_id, p_turn_epoch) then
    update state.account_holds a set reason = p_reason, until = v_until, window_no = a.window_no + 1,
      probe_turn_id = null, probe_epoch = null, probe_at = null
    where a.account = p_account;
  elsif v_hold.probe_at is null and v_until > v_hold.until then
    -- A call from before the hold.
    update state.account_holds a set reason = p_reason, until = v_until, probe_turn_id = null
    where a.account = p_account;
  end if;
  return query select a.until, a.reason from state.account_holds a where a.account = p_account;
end $$;

-- Ends the hold of an account: its probe succeeded (the fence is the probe's), or a person lifts it (no fence). Returns
-- whether there was a hold to end. The caller then releases the parked turns.
create or replace function state.end_hold(p_account text, p_by text, p_agent_turn_id text, p_turn_epoch bigint)
returns boolean language plpgsql as $$
begin
  update state.account_holds a set ended_at = state.now(), ended_by = p_by
  where a.account = p_account and a.ended_at is null and (p_agent_turn_id is null
    or (a.probe_turn_id, a.probe_epoch) = (p_agent_turn_id, p_turn_epoch) and a.probe_at is not null);
  return found;
end $$;

-- running → suspended, without a worker: the turn waits for its account. The wait is a call of account_hold; its
-- deadline, p_seconds, is the last resort if nothing releases the turn.
-- Items: one item of suspend.
create or replace function state.park(p_items json, p_account text, p_seconds double precision)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_verdict state.verdict;
begin
  select * into v_verdict from state.suspend(p_items, p_seconds);
  if v_verdict.what = 'suspended' then
    -- Parked before, and continued by the deadline of its wait.
    perform state.prolong_parked(array[v_verdict.agent_turn_id], state.now());
    insert into state.parked_turns (agent_turn_id, project_id, agent_id, tool_call_id, account, parked_at)
    values (v_verdict.agent_turn_id, v_verdict.project_id, v_verdict.agent_id,
      p_items -> 0 -> 'calls' -> 0 ->> 'tool_call_id', p_account, state.now())
    on conflict (agent_turn_id) do update set tool_call_id = excluded.tool_call_id, account = excluded.account,
      parked_at = excluded.parked_at;
  end if;
  return next v_verdict;
end $$;

-- The longest time by which parking prolongs a turn: one month of a spending limit, and some days for the queue.
create or replace function state.parked_max() returns interval language sql immutable as $$
  select interval '33 days'
$$;

-- W2.9: the time in which a turn was parked does not count against its deadline.
create or replace function state.prolong_parked(p_turns text[], p_now timestamptz) returns void language sql as $$
  update state.agent_state_head h set turn_deadline = greatest(h.turn_deadline,
    least(h.turn_deadline + (p_now - p.parked_at), h.leased_at + state.parked_max()))
  from state.parked_turns p cross join lateral state.head_ctid(p.project_id, p.agent_id) as at (tid)
  where h.ctid = at.tid and p.agent_turn_id = any (p_turns) and h.active_agent_turn_id = p.agent_turn_id
    and h.status = 'suspended'
$$;

-- Continues parked turns: all of accounts without a hold, and one as the probe of each window that is over. p_ids has
-- two ids per turn; a full answer means that the caller calls again. Any process may call it at any time.
create or replace function state.release_parked(p_ids text[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  -- A call that runs for so long has not been refused: the account works.
  c_probe_max constant interval := '10 minutes';
  v_now timestamptz := state.now();
  v_hold state.account_holds;
  v_turn text;
  v_turns text[] := '{}';
begin
  for v_hold in select * from state.account_holds a where a.ended_at is null and a.until <= v_now
    order by a.account for no key update skip locked
  loop
    if starts_with(v_hold.account, 'spending: ') then
      -- The next period has begun: nothing is to be probed.
      perform state.end_hold(v_hold.account, 'period', null, null);
    elsif v_hold.probe_at is not null then
      if not state.probe_is_running(v_hold) then
        perform state.next_window(v_hold.account, v_now);
      elsif v_hold.probe_at < v_now - c_probe_max then
        perform state.end_hold(v_hold.account, 'probe', v_hold.probe_turn_id, v_hold.probe_epoch);
      end if;
    elsif v_hold.probe_turn_id is null or not state.probe_is_coming(v_hold) then
      select p.agent_turn_id into v_turn from state.parked_turns p
      join state.turn_waiting_tools w on w.project_id = p.project_id and w.tool_call_id = p.tool_call_id
      where p.account = v_hold.account and w.wait_status = 'waiting'
      order by p.parked_at, p.agent_turn_id limit 1;
      if v_turn is not null then
        update state.account_holds a set probe_turn_id = v_turn where a.account = v_hold.account;
        v_turns := v_turns || v_turn;
      end if;
    end if;
  end loop;

  v_turns := array(
    select p.agent_turn_id from state.parked_turns p
    where p.agent_turn_id = any (v_turns)
      or not exists (select from state.account_holds a where a.account = p.account and a.ended_at is null)
      or not exists (select from state.turn_waiting_tools w
        where w.project_id = p.project_id and w.tool_call_id = p.tool_call_id and w.wait_status = 'waiting')
    order by p.agent_turn_id = any (v_turns) desc, p.parked_at, p.agent_turn_id limit cardinality(p_ids) / 2);
  if v_turns = '{}' then return; end if;
  -- A receipt for a wait that was answered, or whose turn has ended, is ignored.
  return query select * from state.report((
    select json_agg(json_build_object('project_id', p.project_id, 'tool_call_id', p.tool_call_id,
      'agent_turn_id', p.agent_turn_id, 'message_type', 'tool_result', 'status', 'success',
      'result', json_build_object('account', p.account), 'inbox_id', p_ids[2 * t.ord - 1], 'card_id', p_ids[2 * t.ord]))
    from unnest(v_turns) with ordinality as t (id, ord) join state.parked_turns p on p.agent_turn_id = t.id));
  -- The report holds the locks of their heads.
  perform state.prolong_parked(v_turns, v_now);
  delete from state.parked_turns p where p.agent_turn_id = any (v_turns);
end $$;
