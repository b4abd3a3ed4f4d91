CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    -- The model that was asked last; null where none was.
    model TEXT,
    -- Milliseconds since 1970.
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX chats_by_change ON chats (updated_at DESC, id DESC);

CREATE TABLE messages (
    chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    -- As the page has them, in JSON.
    parts TEXT NOT NULL,
    PRIMARY KEY (chat, position)
) STRICT, WITHOUT ROWID;
