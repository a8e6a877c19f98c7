-- These verbs get a parameter: one verdict may stand for a complete batch (decision 0015).
drop function if exists state.enqueue(state.new_turn[]);
drop function if exists state.finish_turn_idle(state.ending[]);
