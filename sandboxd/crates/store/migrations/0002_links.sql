-- Links to previews. They outlive their sandbox for a while, so that who follows one is told what became of it.
CREATE TABLE links (
    id TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL,
    port INTEGER NOT NULL,
    style TEXT NOT NULL,
    -- The listening port of a link that has one of its own.
    door INTEGER,
    created_at_ms INTEGER NOT NULL,
    -- NULL is as long as the sandbox.
    expires_at_ms INTEGER,
    -- Why it leads nowhere any more, and since when.
    ended TEXT,
    ended_at_ms INTEGER
) STRICT;
