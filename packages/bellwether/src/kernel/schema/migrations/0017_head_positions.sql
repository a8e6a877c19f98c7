-- Where the caller found the head that it locked: finish_turn_idle and lease reach it without another lookup (decision
-- 0015). Null: unknown.
alter type state.ending add attribute head_tid tid;
alter type state.leasing add attribute head_tid tid;
-- Its result changes: it returns where the heads are.
drop function if exists state.lock_heads(text[], text[]);
