-- Terms of leadership, which leader writes carry: a former leader that does not know it yet cannot write.
CREATE SEQUENCE kodiak_term;
ALTER TABLE kodiak_lease ADD COLUMN term bigint NOT NULL DEFAULT nextval('kodiak_term');
