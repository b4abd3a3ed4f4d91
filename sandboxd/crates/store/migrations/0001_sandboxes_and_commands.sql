-- One row: what is known of the daemon itself.
CREATE TABLE daemon (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- 1 once the engine's sandboxes were taken into this database.
    is_loaded INTEGER NOT NULL,
    -- Milliseconds it has been running, over all its starts.
    age_ms INTEGER NOT NULL
) STRICT;
INSERT INTO daemon (one, is_loaded, age_ms) VALUES (1, 0, 0);

CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    session_key TEXT NOT NULL UNIQUE,
    uid INTEGER NOT NULL UNIQUE,
    transport TEXT NOT NULL,
    runtime TEXT NOT NULL,
    image TEXT,
    idle_ttl_ms INTEGER NOT NULL,
    -- As in the container's labels: vcpus=2,memoryMb=2048,diskMb=2048,pids=512
    resources TEXT NOT NULL,
    network TEXT NOT NULL,
    -- JSON, because nothing is ever looked up by them.
    ports TEXT NOT NULL,
    env TEXT NOT NULL,
    metadata TEXT NOT NULL,
    -- name:uuid of the workspace's file system.
    disk TEXT,
    stage TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    last_active_ms INTEGER NOT NULL,
    parked_at_age_ms INTEGER,
    disk_bytes INTEGER
) STRICT;

CREATE TABLE commands (
    -- In order of start.
    seq INTEGER PRIMARY KEY,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    argv TEXT NOT NULL,
    cwd TEXT NOT NULL,
    detached INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    started_at_ms INTEGER NOT NULL,
    -- NULL until the end is known, as are all that follow.
    reason TEXT,
    exit_code INTEGER,
    signal INTEGER,
    duration_ms INTEGER,
    stdout_bytes INTEGER,
    stderr_bytes INTEGER,
    dropped_bytes INTEGER,
    swept INTEGER,
    -- The daemon's age when the end was written.
    ended_at_age_ms INTEGER,
    UNIQUE (sandbox, id)
) STRICT;
CREATE INDEX commands_in_order ON commands (sandbox, seq);
CREATE INDEX commands_by_end ON commands (ended_at_age_ms) WHERE ended_at_age_ms IS NOT NULL;
