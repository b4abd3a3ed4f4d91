-- The quotas of projects that have some, as the API writes them.
CREATE TABLE quotas (
    project TEXT PRIMARY KEY REFERENCES projects (name) ON DELETE CASCADE,
    quotas TEXT NOT NULL
) STRICT;

-- What projects have used on each day.
CREATE TABLE usage (
    project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
    -- Days since the Unix epoch, in UTC.
    day INTEGER NOT NULL,
    running_ms INTEGER NOT NULL,
    peak_running INTEGER NOT NULL,
    commands INTEGER NOT NULL,
    egress_bytes INTEGER NOT NULL,
    snapshot_bytes INTEGER NOT NULL,
    PRIMARY KEY (project, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_day ON usage (day);
