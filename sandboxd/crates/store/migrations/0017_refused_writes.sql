-- The first write that a read-only command was refused, and its path. Null if there was none.
ALTER TABLE commands ADD COLUMN refused_write TEXT;
ALTER TABLE commands ADD COLUMN refused_path TEXT;
