CREATE TABLE projects (
    name TEXT PRIMARY KEY,
    created_at_ms INTEGER NOT NULL
) STRICT;

-- Tokens of projects. The secret is not stored.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
    subject TEXT NOT NULL,
    name TEXT,
    -- A sum: 1 is read, 2 is use, 4 is manage.
    scopes INTEGER NOT NULL,
    -- Keyed hash of the secret.
    digest BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL,
    -- NULL is never.
    expires_at_ms INTEGER,
    last_used_ms INTEGER
) STRICT;
CREATE INDEX tokens_of_projects ON tokens (project, id);

-- The token that made a link. It ends with the token.
ALTER TABLE links ADD COLUMN token TEXT;
