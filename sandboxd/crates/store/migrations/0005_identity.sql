-- Which instance and engine the rows belong to; NULL until the first start that knows.
ALTER TABLE daemon ADD COLUMN instance TEXT;
ALTER TABLE daemon ADD COLUMN engine TEXT;
ALTER TABLE daemon ADD COLUMN marker TEXT;
-- Random words of this state dir's last start and of the one that was about to follow it, with a space between.
ALTER TABLE daemon ADD COLUMN epoch TEXT;
-- The number of its last start.
ALTER TABLE daemon ADD COLUMN epoch_number INTEGER NOT NULL DEFAULT 0;

-- Workspaces and disks on the engine that belong to no sandbox, and since when they were seen.
CREATE TABLE orphans (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    seen_at_age_ms INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;
