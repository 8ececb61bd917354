-- The control planes over this database. Each counts its number up every few seconds; one that stands still is dead.
CREATE TABLE kodiak_instance (
    id     TEXT PRIMARY KEY,
    number BIGINT NOT NULL,
    seen   TIMESTAMPTZ NOT NULL -- only for removing what is left behind
);
