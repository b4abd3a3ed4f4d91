-- Commands that have ended. Unlike those in `commands`, they are kept whatever their age, and are never changed.
CREATE TABLE history (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    -- In order of their ends, from 1 for each sandbox.
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    argv TEXT NOT NULL,
    cwd TEXT NOT NULL,
    detached INTEGER NOT NULL,
    passive INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    started_at_ms INTEGER NOT NULL,
    request_digest BLOB,
    reason TEXT NOT NULL,
    exit_code INTEGER NOT NULL,
    signal INTEGER,
    duration_ms INTEGER NOT NULL,
    stdout_bytes INTEGER NOT NULL,
    stderr_bytes INTEGER NOT NULL,
    dropped_bytes INTEGER NOT NULL,
    swept INTEGER NOT NULL,
    exceeded_limit TEXT,
    exceeded_value INTEGER,
    refused_write TEXT,
    refused_path TEXT,
    ended_at_age_ms INTEGER NOT NULL,
    PRIMARY KEY (sandbox, number)
) STRICT;

CREATE TRIGGER history_never_changes BEFORE UPDATE ON history
BEGIN
    SELECT raise(ABORT, 'the history of commands never changes');
END;

INSERT INTO history (sandbox, number, id, argv, cwd, detached, passive, timeout_ms, started_at_ms, request_digest, reason,
    exit_code, signal, duration_ms, stdout_bytes, stderr_bytes, dropped_bytes, swept, exceeded_limit, exceeded_value,
    refused_write, refused_path, ended_at_age_ms)
SELECT sandbox, row_number() OVER (PARTITION BY sandbox ORDER BY seq), id, argv, cwd, detached, passive, timeout_ms,
    started_at_ms, request_digest, reason, exit_code, signal, duration_ms, stdout_bytes, stderr_bytes, dropped_bytes,
    swept, exceeded_limit, exceeded_value, refused_write, refused_path, ended_at_age_ms
FROM commands WHERE reason IS NOT NULL;
