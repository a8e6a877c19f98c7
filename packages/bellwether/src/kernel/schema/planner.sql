-- Planner settings of the verbs that work on batches. They must read a few rows by key, whatever the statistics say: a
-- planner that believes a table to be empty would scan it once per item of a batch. The functions that these verbs call
-- inherit the settings; verbs that are not listed read single rows by their key.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid::regprocedure from pg_proc p
    where p.pronamespace = 'state'::regnamespace and p.proname = any ('{
      add_words, answer_batches, append_transcript, beat, claim, collect_batches, count_trends, deliver,
      dispatch_tasks, end_over_budget, enqueue, expire_waits, index_words, mark_idle_agents, open_batches, open_calls,
      park, pmo_calls, put_agents, read_events, reap, reclaim, reconcile, record, report,
      requeue_expired_resume_ledgers, resend_commands, resume, retire_agents, retry_dispatched, stop, suspend,
      swap_box, sweep_queued, take_call, ui_action, wake_pending}')
  loop
    execute format('alter function %s set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off '
      'set enable_bitmapscan = off set enable_material = off set jit = off set plan_cache_mode = force_generic_plan',
      v_function);
  end loop;
end $$;
