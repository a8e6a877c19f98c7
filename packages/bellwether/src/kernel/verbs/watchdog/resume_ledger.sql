-- W2.3a: a worker that died between receipt and resume leaves its ledger rows 'processing'. Each call returns expired
-- leases to 'pending'; reconcile gives turns whose waits are all settled to a live worker.

create or replace function state.requeue_expired_resume_ledgers()
returns int language plpgsql as $$
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
