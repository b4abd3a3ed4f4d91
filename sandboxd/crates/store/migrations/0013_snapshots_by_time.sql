-- The list of all snapshots comes in pages, newest first.
CREATE INDEX snapshots_by_time ON snapshots (created_at_ms, id);
