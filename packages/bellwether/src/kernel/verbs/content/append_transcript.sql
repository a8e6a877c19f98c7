-- Appends entries to the transcripts of turns. Locks the fenced heads, so that appends to a turn follow each other and
-- no reap or reclaim comes between the check and the commit; a lost fence writes nothing and returns 'stale'. A
-- repeated call writes nothing twice: an entry is skipped unless its key is above that of the last entry of the same
-- session. A transcript keeps its first p_max_bytes / 2 bytes and at least the last 3/8 of p_max_bytes; the entries
-- between them are deleted, and the gap in seq and total_bytes says how much that was.
-- Items: {project_id, agent_id, agent_turn_id, turn_epoch, entries: [{key, kind, age_ms, continued?, call_id?, name?,
-- content, left_out?}]}; left_out: bytes that the writer had to drop before this entry.
create or replace function state.append_transcript(p_items json, p_max_bytes int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  -- What an entry costs besides its content.
  c_entry_bytes constant int := 64;
  v_now timestamptz;
  v_item record;
  v_last state.transcript;
  v_seq int;
  v_total bigint;
begin
  perform state.lock_heads(array_agg(x.project_id), array_agg(x.agent_id))
  from json_to_recordset(p_items) as x (project_id text, agent_id text);
  v_now := state.now();

  for v_item in
    select x.*, exists (select from state.head(x.project_id, x.agent_id) h
      where h.active_agent_turn_id = x.agent_turn_id and h.turn_epoch = x.turn_epoch) as live
    from json_to_recordset(p_items) as x (project_id text, agent_id text, agent_turn_id text, turn_epoch bigint,
      entries json)
  loop
    if v_item.live then
      select s.* into v_last from state.transcript s
      where s.agent_turn_id = v_item.agent_turn_id order by s.seq desc limit 1;

      with written as (
        insert into state.transcript (agent_turn_id, seq, turn_epoch, entry_key, total_bytes, created_at, kind,
          continued, call_id, name, content)
        select v_item.agent_turn_id,
          coalesce(v_last.seq, 0) + sum(1 + (e.left_out is not null)::int) over passed,
          v_item.turn_epoch, e.key,
          coalesce(v_last.total_bytes, 0) + sum(c_entry_bytes + octet_length(e.content)
            + coalesce(e.left_out + c_entry_bytes, 0)) over passed,
          v_now - make_interval(secs => e.age_ms / 1000.0), e.kind, coalesce(e.continued, false), e.call_id, e.name,
          e.content
        from rows from (json_to_recordset(v_item.entries) as (key bigint, kind text, age_ms double precision,
          continued boolean, call_id text, name text, content text, left_out bigint))
          with ordinality as e (key, kind, age_ms, continued, call_id, name, content, left_out, ord)
        where v_last.entry_key is null or e.key >> 32 <> v_last.entry_key >> 32 or e.key > v_last.entry_key
        window passed as (order by e.ord)
        returning seq, total_bytes
      )
      select max(w.seq), max(w.total_bytes) into v_seq, v_total from written w;

      -- Once per eighth of the limit, so that a long transcript is not read for each batch.
      if v_total > p_max_bytes and v_total / (p_max_bytes / 8)
          > coalesce(v_last.total_bytes, 0) / (p_max_bytes / 8) then
        delete from state.transcript s
        where s.agent_turn_id = v_item.agent_turn_id and s.seq < v_seq and s.total_bytes > p_max_bytes / 2
          and s.total_bytes <= v_total - p_max_bytes::bigint * 3 / 8;
      end if;
    end if;

    return query select case when v_item.live then 'appended' else 'stale' end, v_item.project_id, v_item.agent_id,
      v_item.agent_turn_id, v_item.turn_epoch, null::text, null::text, null::text,
      case when v_item.live then jsonb_build_object('seq', coalesce(v_seq, v_last.seq, 0)) end;
  end loop;
end $$;
