-- The limit that a command has exceeded, and its value. Null if it has exceeded none.
ALTER TABLE commands ADD COLUMN exceeded_limit TEXT;
ALTER TABLE commands ADD COLUMN exceeded_value INTEGER;
