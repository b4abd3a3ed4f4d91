-- Whether a parked sandbox has files that the remote store of snapshots may not have: 1 or 0.
ALTER TABLE sandboxes ADD COLUMN checkpoint_pending INTEGER NOT NULL DEFAULT 1;
