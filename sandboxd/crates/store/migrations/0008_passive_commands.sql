-- Whether a command does not keep its sandbox in use. The next start of the daemon ends it.
ALTER TABLE commands ADD COLUMN passive INTEGER NOT NULL DEFAULT 0;
