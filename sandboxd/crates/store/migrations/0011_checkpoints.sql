-- Automatic snapshots of a sandbox, as JSON. NULL is none.
ALTER TABLE sandboxes ADD COLUMN checkpoints TEXT;
-- Whether a snapshot was made automatically: 1 or 0.
ALTER TABLE snapshots ADD COLUMN automatic INTEGER NOT NULL DEFAULT 0;
-- The last command that had ended before an automatic snapshot was made.
ALTER TABLE snapshots ADD COLUMN command_id TEXT;
