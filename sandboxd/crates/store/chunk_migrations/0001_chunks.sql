-- The index of the chunks of snapshots. It is a cache: the packs say the same.
CREATE TABLE packs (
    number INTEGER PRIMARY KEY,
    -- BLAKE3 of the pack's bytes.
    name BLOB NOT NULL UNIQUE,
    size_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE chunks (
    -- BLAKE3 of the chunk's bytes.
    hash BLOB NOT NULL UNIQUE,
    -- The number of its pack.
    pack INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    stored_len INTEGER NOT NULL,
    raw_len INTEGER NOT NULL,
    -- The last generation in which it was in use.
    mark INTEGER NOT NULL
) STRICT;

CREATE INDEX chunks_of_packs ON chunks (pack);

CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- Number of the last collection.
    generation INTEGER NOT NULL,
    -- Whether it has not finished: 0 or 1.
    is_collecting INTEGER NOT NULL,
    -- Whether all packs are listed: 0 or 1.
    is_complete INTEGER NOT NULL
) STRICT;

INSERT INTO state VALUES (1, 0, 0, 0);
