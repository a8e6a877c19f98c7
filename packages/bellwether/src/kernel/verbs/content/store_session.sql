-- Stores the session of the program that runs a turn. Locks the fenced head FOR SHARE, as record does; a lost fence
-- writes nothing and returns 'stale'. What is stored once stays true: `answered` does not go back within one session.
-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, program, program_session_id, folder, resumed, answered,
-- messages_seen}.
create or replace function state.store_session(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_item record;
  v_live boolean;
begin
  for v_item in
    select * from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text,
      turn_epoch bigint, program text, program_session_id text, folder text, resumed boolean, answered boolean,
      messages_seen int)
    order by x.project_id, x.agent_id
  loop
    perform from state.agent_state_head h
    where h.project_id = v_item.project_id and h.agent_id = v_item.agent_id
    order by h.epoch_group desc limit 1 for share;
    v_live := exists (select from state.head(v_item.project_id, v_item.agent_id) h
      where h.active_agent_turn_id = v_item.agent_turn_id and h.turn_epoch = v_item.turn_epoch
        and h.status = 'running');
    if v_live then
      insert into state.program_sessions as s (agent_turn_id, project_id, agent_id, session_key, program,
        program_session_id, folder, resumed, answered, messages_seen, stored_at)
      select v_item.agent_turn_id, v_item.project_id, v_item.agent_id, i.payload ->> 'session_id', v_item.program,
        v_item.program_session_id, v_item.folder, v_item.resumed, v_item.answered, v_item.messages_seen,
        state.now()
      from state.turn_row(v_item.agent_turn_id) i
      on conflict (agent_turn_id) do update set program = excluded.program,
        program_session_id = excluded.program_session_id, folder = excluded.folder, resumed = excluded.resumed,
        answered = excluded.answered or (s.answered and s.program_session_id = excluded.program_session_id),
        messages_seen = excluded.messages_seen, stored_at = excluded.stored_at;
    end if;
    return query select case when v_live then 'stored' else 'stale' end, v_item.project_id, v_item.agent_id,
      v_item.agent_turn_id, v_item.turn_epoch, null::text, null::text, null::text, null::jsonb;
  end loop;
end $$;
