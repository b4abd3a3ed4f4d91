-- Whom sandboxes and snapshots belong to: a project, and a subject of it or an empty text.
ALTER TABLE snapshots ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
ALTER TABLE snapshots ADD COLUMN subject TEXT NOT NULL DEFAULT '';
CREATE INDEX snapshots_of_projects ON snapshots (project, created_at_ms, id);

-- Session keys were unique, and now they are within their owner. SQLite cannot change that in a table, so this makes
-- a new one (https://www.sqlite.org/lang_altertable.html, section 7). Foreign keys are not enforced meanwhile: dropping
-- the old table would delete the history of commands.
CREATE TABLE sandboxes_of_owners (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    subject TEXT NOT NULL,
    session_key TEXT NOT NULL,
    uid INTEGER NOT NULL UNIQUE,
    transport TEXT NOT NULL,
    runtime TEXT NOT NULL,
    image TEXT,
    idle_ttl_ms INTEGER NOT NULL,
    resources TEXT NOT NULL,
    network TEXT NOT NULL,
    allow TEXT NOT NULL,
    ports TEXT NOT NULL,
    env TEXT NOT NULL,
    secret_env TEXT NOT NULL,
    metadata TEXT NOT NULL,
    checkpoints TEXT,
    disk TEXT,
    stage TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    last_active_ms INTEGER NOT NULL,
    parked_at_age_ms INTEGER,
    disk_bytes INTEGER,
    checkpoint_pending INTEGER NOT NULL,
    is_tentative INTEGER NOT NULL,
    UNIQUE (project, subject, session_key)
) STRICT;

INSERT INTO sandboxes_of_owners
SELECT
    id, 'default', '', session_key, uid, transport, runtime, image, idle_ttl_ms, resources, network, allow, ports, env,
    secret_env, metadata, checkpoints, disk, stage, created_at_ms, last_active_ms, parked_at_age_ms, disk_bytes,
    checkpoint_pending, is_tentative
FROM sandboxes;

DROP TABLE sandboxes;
ALTER TABLE sandboxes_of_owners RENAME TO sandboxes;
