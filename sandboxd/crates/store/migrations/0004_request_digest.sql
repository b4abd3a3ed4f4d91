-- Identifies the request that started a command whose id its caller chose. NULL is not known.
ALTER TABLE commands ADD COLUMN request_digest BLOB;
