-- Sends a message to a turn. Locks the head, so that the turn cannot end between the check and the commit. A repeated
-- message id changes nothing.
create or replace function state.say(p_project text, p_turn text, p_message_id text, p_sender text, p_content text,
  p_urgent boolean, p_max int)
returns table (what text, seq int, outcome text, delivered_at timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  v_agent text;
  v_ended timestamptz;
  v_known state.turn_messages;
  v_last int;
begin
  select i.agent_id into v_agent from state.turn_row(p_turn) i where i.project_id = p_project;
  if v_agent is null then
    what := 'unknown_turn';
    return next;
    return;
  end if;
  perform state.lock_heads(array[p_project], array[v_agent]);
  select i.ended_at, i.outcome into v_ended, outcome from state.turn_row(p_turn) i;
  select m.* into v_known from state.turn_messages m where m.agent_turn_id = p_turn and m.message_id = p_message_id;
  select coalesce(max(m.seq), 0) into v_last from state.turn_messages m where m.agent_turn_id = p_turn;
  if v_known.seq is not null then
    what := case when v_known.content = p_content then 'stored' else 'conflict' end;
    seq := v_known.seq;
    delivered_at := v_known.delivered_at;
  elsif v_ended is not null then
    what := 'ended';
  elsif v_last >= p_max then
    what := 'too_many';
  else
    insert into state.turn_messages (agent_turn_id, seq, message_id, sender, content, urgent, created_at)
    values (p_turn, v_last + 1, p_message_id, p_sender, p_content, p_urgent, state.now());
    what := 'stored';
    seq := v_last + 1;
  end if;
  return next;
end $$;

-- Gives the waiting messages of a running turn to its agent: marks them as delivered and adds each to the output box
-- and to the transcript, in order, in one transaction. A lost fence changes nothing and returns 'stale'.
create or replace function state.take_messages(p_project text, p_agent text, p_turn text, p_epoch bigint)
returns table (what text, seq int, sender text, content text, created_at timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  v_box text;
  v_now timestamptz;
  v_message record;
  v_last state.transcript;
begin
  -- Most calls find nothing, and take no lock.
  if not exists (select from state.turn_messages m where m.agent_turn_id = p_turn and m.delivered_at is null) then
    return;
  end if;
  perform state.lock_heads(array[p_project], array[p_agent]);
  select h.output_box_id into v_box from state.head(p_project, p_agent) h
  where h.active_agent_turn_id = p_turn and h.turn_epoch = p_epoch and h.status = 'running';
  if not found then
    what := 'stale';
    return next;
    return;
  end if;
  v_now := state.now();
  for v_message in
    with taken as (update state.turn_messages m set delivered_at = v_now
      where m.agent_turn_id = p_turn and m.delivered_at is null
      returning m.seq, m.sender, m.content, m.created_at)
    select * from taken order by taken.seq
  loop
    insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
    values (p_turn || '-m' || v_message.seq, p_project, 'task.instruction', 'user',
      jsonb_build_object('text', v_message.content), jsonb_build_object('agent_turn_id', p_turn,
        'message', jsonb_build_object('seq', v_message.seq, 'sender', v_message.sender)), v_now)
    on conflict do nothing;
    if v_box is not null then
      insert into cards.box_cards (box_id, card_id) values (v_box, p_turn || '-m' || v_message.seq);
    end if;
    select s.* into v_last from state.transcript s where s.agent_turn_id = p_turn order by s.seq desc limit 1;
    -- The key of the entry before it, so that a repeated call of append_transcript still finds what it has written.
    insert into state.transcript (agent_turn_id, seq, turn_epoch, entry_key, total_bytes, created_at, kind, continued,
      call_id, name, content)
    values (p_turn, coalesce(v_last.seq, 0) + 1, p_epoch, coalesce(v_last.entry_key, 0),
      coalesce(v_last.total_bytes, 0) + 64 + octet_length(v_message.content), v_now, 'note', false, null,
      'message from ' || v_message.sender, v_message.content);
    what := 'taken';
    seq := v_message.seq;
    sender := v_message.sender;
    content := v_message.content;
    created_at := v_message.created_at;
    return next;
  end loop;
end $$;
