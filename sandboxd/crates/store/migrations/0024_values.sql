-- The values that clients keep with a sandbox, by key.
CREATE TABLE kept_values (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, key)
) STRICT;
