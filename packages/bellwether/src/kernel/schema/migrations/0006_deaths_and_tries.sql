-- One word per count: deaths of workers that are charged to a turn, and tries of a dispatch or of a resume.
alter table state.agent_inbox rename column attempts to deaths;
alter view state.turns rename column attempts to deaths;
alter table state.turn_resume_ledger rename column attempts to tries;
alter table state.batch_tasks rename column attempts to tries;
alter table state.batch_tasks rename column next_attempt_at to next_try_at;

-- Names of parameters and result columns cannot be replaced.
drop function if exists state.claim(text, text, int, double precision);
drop function if exists state.reconcile(text, text, int, double precision);
drop function if exists state.reclaim(text, double precision, int, timestamptz, timestamptz, int);
drop function if exists state.dispatch_tasks(text, int[], double precision, int);
drop function if exists state.put_off_tasks(text, int[], text[], double precision, int);
