-- The name of the key or the person beside the id: the id of a person at an identity provider says nothing to a reader.
alter table resource.audit_log add column name text;
