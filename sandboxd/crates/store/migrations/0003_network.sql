-- The hosts of a sandbox's network policy, as JSON; its mode is in `network`.
ALTER TABLE sandboxes ADD COLUMN allow TEXT NOT NULL DEFAULT '[]';
