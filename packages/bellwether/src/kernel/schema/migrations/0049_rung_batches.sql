-- It gets the batches whose workers have rung (decision 0015).
drop function if exists state.collect_batches(text[]);
