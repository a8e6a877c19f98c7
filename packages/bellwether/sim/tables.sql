-- What the simulation's actors write down about themselves, for the invariants.
create table state.sim_claims (agent_turn_id text, turn_epoch bigint, worker text);
-- What a worker was answered when it delivered under a fence.
create table state.sim_answers (agent_turn_id text, turn_epoch bigint, answer text);
create table state.sim_effects (tool_call_id text, host text);
create table state.sim_seen (event_id bigint);
create table state.sim_published (seq int, cursor text, msg_id text);
-- The calls that are charged to an account; probe: the window that the call probed.
create table state.sim_calls (agent_turn_id text, turn_epoch bigint, held_since timestamptz, probe int);
-- What a program was answered that asked for permission, and each decision that counted.
create table state.sim_decisions (approval_id text, turn_epoch bigint, decision text);
