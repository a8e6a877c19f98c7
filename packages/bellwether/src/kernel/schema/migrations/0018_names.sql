-- Names that say what they are.
alter table resource.http_answers rename to http_responses;
alter table resource.http_responses rename column answer to response;
alter table resource.http_responses rename constraint http_answers_pkey to http_responses_pkey;
alter table resource.http_responses rename constraint answer_has_its_status to response_has_its_status;
alter index resource.http_answers_age rename to http_responses_age;
-- Now state.mark_idle_agents.
drop function if exists state.rest_agents(double precision, int);
