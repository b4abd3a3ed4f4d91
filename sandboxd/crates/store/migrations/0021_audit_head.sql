-- The last line of the audit record that is known to be on the disk: its number, which counts the lines, and its MAC.
ALTER TABLE daemon ADD COLUMN audit_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE daemon ADD COLUMN audit_mac TEXT;
