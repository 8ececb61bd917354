-- Tells histories apart, so that a control plane notices when commits that it has seen are no longer in the database.

ALTER TABLE kodiak_head
    ADD COLUMN history BYTEA NOT NULL DEFAULT uuid_send(gen_random_uuid()), -- 16 random bytes, new after a restore
    ADD COLUMN commit  BYTEA NOT NULL DEFAULT decode(repeat('00', 16), 'hex'); -- 16 random bytes, new with each commit

-- The last commits, by the revision they ended with.
CREATE TABLE kodiak_commit (
    revision BIGINT PRIMARY KEY,
    commit   BYTEA NOT NULL
);
