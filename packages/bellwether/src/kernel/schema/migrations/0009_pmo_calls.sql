-- The PMO tool that hosts a call, and an index for the calls that wait for a PMO.
alter table state.turn_waiting_tools add column pmo_tool text;
create index waits_for_pmo on state.turn_waiting_tools (wait_seq)
  where pmo_tool is not null and wait_status = 'waiting' and started_by is null;
