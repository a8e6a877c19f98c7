-- Calls the person or program that sent a message its sender, as every other place does. The two functions are created
-- again with the new column.
drop function if exists state.say(text, text, text, text, text, boolean, int);
drop function if exists state.take_messages(text, text, text, bigint);
alter table state.turn_messages rename column said_by to sender;
