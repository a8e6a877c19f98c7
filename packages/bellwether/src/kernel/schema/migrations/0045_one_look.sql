-- It gets the positions of the heads that one look at all heads has found (decision 0015).
drop function if exists state.overdue(timestamptz, json, int);
