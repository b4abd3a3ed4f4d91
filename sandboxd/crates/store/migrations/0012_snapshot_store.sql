-- Id of the key of the remote store that has the snapshots. NULL is the directory in the state dir.
ALTER TABLE daemon ADD COLUMN snapshot_store TEXT;
