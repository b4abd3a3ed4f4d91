CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    role TEXT NOT NULL CHECK (role IN ('admin', 'user')),
    -- In PHC form, with its parameters; null if the account has no password.
    password TEXT,
    -- The account at an identity provider; null if there is none.
    issuer TEXT,
    subject TEXT,
    -- Milliseconds since 1970, here and below.
    created_at INTEGER NOT NULL,
    disabled_at INTEGER,
    UNIQUE (issuer, subject)
) STRICT;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    -- SHA-256. A token has 256 random bits, so a slower hash is not needed.
    token_hash BLOB NOT NULL UNIQUE,
    user TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    -- What the browser calls itself.
    agent TEXT,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_by_user ON sessions (user, used_at);

CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    token_hash BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('admin', 'user')),
    created_by TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Two users may have chats of the same id, because pages choose the ids.
CREATE TABLE owned_chats (
    -- The user's id; empty in an app without accounts.
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    -- The model that was asked last; null where none was.
    model TEXT,
    -- Whom the chat's sandbox belongs to at sandboxd; null for nobody in particular.
    subject TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT;

CREATE TABLE owned_messages (
    owner TEXT NOT NULL,
    chat TEXT NOT NULL,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    -- As the page has them, in JSON.
    parts TEXT NOT NULL,
    PRIMARY KEY (owner, chat, position),
    FOREIGN KEY (owner, chat) REFERENCES owned_chats (owner, id) ON DELETE CASCADE ON UPDATE CASCADE
) STRICT, WITHOUT ROWID;

INSERT INTO owned_chats (owner, id, title, model, created_at, updated_at)
SELECT '', id, title, model, created_at, updated_at FROM chats;

INSERT INTO owned_messages (owner, chat, position, id, role, parts)
SELECT '', chat, position, id, role, parts FROM messages;

-- In this order, because the removal of a chat would remove its messages.
DROP TABLE messages;
DROP TABLE chats;
ALTER TABLE owned_chats RENAME TO chats;
ALTER TABLE owned_messages RENAME TO messages;

CREATE INDEX chats_by_change ON chats (owner, updated_at DESC, id DESC);
