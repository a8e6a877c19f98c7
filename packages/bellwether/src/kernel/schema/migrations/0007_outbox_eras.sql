-- The order of events no longer depends on transaction ids, so that a transaction that does not write to the outbox
-- delays no reader (decision 0013). New rows have the same `xid`, an era that is higher than every transaction id, and
-- are ordered by event_id. The era is the time of this migration in milliseconds: a database that is created later has
-- a higher one. The lock waits for writers of the old order.
lock table state.events in access exclusive mode;
do $$
declare
  v_era numeric := floor(extract(epoch from state.now()) * 1000);
begin
  select greatest(v_era, max(o.xid::text::numeric) + 1) into v_era from (
    (select xid from state.events order by xid desc limit 1)
    union all select xid from state.event_cursors
    union all select pg_current_xact_id()) o;
  execute format('create function state.outbox_era() returns xid8 language sql immutable parallel safe as %L',
    format('select %L::xid8', v_era::text));
end $$;
alter table state.events alter column xid set default state.outbox_era();
comment on column state.events.xid is
  'The era: orders events before event_id. In rows of version 0.1 it is the id of the transaction.';
