-- Rolls back a verb that reached an inbox row by its position and did not find it there. Verbs change inbox rows under
-- the lock of their head; another program may not. The caller repeats the call and reads the new version.
create or replace function state.raise_conflict() returns void language plpgsql as $$
begin
  raise exception 'another program changed an inbox row during this call' using errcode = '40001',
    hint = 'repeat the call; programs that write inbox rows should lock the head of the agent first';
end $$;
