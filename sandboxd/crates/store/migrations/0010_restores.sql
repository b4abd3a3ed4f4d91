-- Restores that have begun and whose end is not known. Their sandboxes may have files of two snapshots.
CREATE TABLE restores (
    sandbox_id TEXT PRIMARY KEY,
    -- Whose files the sandbox gets.
    snapshot_id TEXT NOT NULL,
    -- Made when the restore began. Its files are what the sandbox gets if the restore cannot be finished.
    checkpoint_id TEXT NOT NULL
) STRICT;
