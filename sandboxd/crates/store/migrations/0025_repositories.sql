-- Repositories that were fetched, each at one commit.
CREATE TABLE repositories (
    url TEXT NOT NULL,
    commit_hash TEXT NOT NULL,
    -- Whether the request had the token of its host.
    with_token INTEGER NOT NULL,
    -- The snapshot with the files. Not a reference: the snapshot may be gone.
    snapshot TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    -- JSON: names of what is missing in the files.
    warnings TEXT NOT NULL,
    fetched_at_ms INTEGER NOT NULL,
    used_at_ms INTEGER NOT NULL,
    PRIMARY KEY (url, commit_hash, with_token)
) STRICT;
