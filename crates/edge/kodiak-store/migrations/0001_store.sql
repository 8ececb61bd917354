-- What kodiak-store keeps. Memory is a copy of this; see src/engine/postgres.rs for how it is kept up to date.

-- How far the store has come. One row; a commit moves it on.
CREATE TABLE kodiak_head (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    revision BIGINT NOT NULL,
    floor    BIGINT NOT NULL -- tombstones up to this revision are forgotten
);

INSERT INTO kodiak_head (revision, floor) VALUES (0, 0);

CREATE TABLE kodiak_record (
    kind           TEXT COLLATE "C" NOT NULL,
    mesh           TEXT COLLATE "C" NOT NULL, -- empty for global resources
    name           TEXT COLLATE "C" NOT NULL,
    spec           BYTEA   NOT NULL, -- JSON; encrypted when sealed
    sealed         BOOLEAN NOT NULL,
    status         TEXT,             -- JSON
    labels         TEXT    NOT NULL, -- JSON
    owner_kind     TEXT,
    owner_mesh     TEXT,
    owner_name     TEXT,
    version        BIGINT  NOT NULL,
    status_version BIGINT  NOT NULL,
    revision       BIGINT  NOT NULL UNIQUE,
    created        BIGINT  NOT NULL, -- microseconds since 1970, as modified
    modified       BIGINT  NOT NULL,
    PRIMARY KEY (kind, mesh, name)
);

-- Deletions, so that who was away hears of them.
CREATE TABLE kodiak_tombstone (
    revision BIGINT PRIMARY KEY,
    kind     TEXT NOT NULL,
    mesh     TEXT NOT NULL,
    name     TEXT NOT NULL
);

-- Who leads, until when by the clock of the database.
CREATE TABLE kodiak_lease (
    name    TEXT PRIMARY KEY,
    holder  TEXT NOT NULL,
    expires TIMESTAMPTZ NOT NULL
);
