-- The encoded content of the values that the sandbox had. NULL if the snapshot does not have them.
ALTER TABLE snapshots ADD COLUMN kept_values BLOB;
