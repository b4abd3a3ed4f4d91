-- Whether the sandbox is one of several of which all are created or none, and not all are created yet: 1 or 0.
ALTER TABLE sandboxes ADD COLUMN is_tentative INTEGER NOT NULL DEFAULT 0;
