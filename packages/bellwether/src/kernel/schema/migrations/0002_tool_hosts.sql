-- The last beat of a tool host, and an index for the calls that wait for one.
alter table state.turn_waiting_tools add column host_beat_at timestamptz;
create index waits_by_tool on state.turn_waiting_tools (project_id, tool_name, wait_seq) where wait_status = 'waiting';
