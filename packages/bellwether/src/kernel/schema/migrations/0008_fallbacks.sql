-- Who ended a turn and why, for its fallback deliverable.
alter type state.ending add attribute ended_by text, add attribute reason text;
drop function if exists state.stop_turns(text[], text[], text, text, text);
drop function if exists state.made_so_far(text);
