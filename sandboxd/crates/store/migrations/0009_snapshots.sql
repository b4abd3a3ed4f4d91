-- Snapshots of workspaces. A snapshot may outlive its sandbox.
CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL,
    -- Of the sandbox when the snapshot was made.
    session_key TEXT,
    name TEXT,
    created_at_ms INTEGER NOT NULL,
    -- NULL is never.
    expires_at_ms INTEGER,
    -- The encoded content of the root directory.
    root BLOB NOT NULL,
    -- The snapshot that it was compared with.
    parent TEXT,
    size_bytes INTEGER NOT NULL,
    -- What it added to the store.
    new_bytes INTEGER NOT NULL,
    files INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT;

CREATE INDEX snapshots_of_sandboxes ON snapshots (sandbox_id, created_at_ms, id);
CREATE INDEX snapshots_by_expiry ON snapshots (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
