-- A task is written three times: with its batch, at its dispatch and at its end. With room for all versions on one
-- page, the updates are HOT; with less, most of them wrote both indexes again.
alter table state.batch_tasks set (fillfactor = 35);
