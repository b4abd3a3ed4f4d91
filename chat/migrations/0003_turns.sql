-- Turns whose answer is not complete. The next start of the app continues them.
CREATE TABLE turns (
    owner TEXT NOT NULL,
    chat TEXT NOT NULL,
    -- Also the id of the answer.
    id TEXT NOT NULL,
    -- The model that answers; null for a command of the user.
    model TEXT,
    -- The session that has begun it; null in an app without accounts.
    session TEXT,
    has_tools INTEGER NOT NULL,
    -- Ids of the calls that have begun and not returned, in JSON.
    pending TEXT NOT NULL,
    -- Whether a person has stopped it.
    is_stopped INTEGER NOT NULL DEFAULT 0,
    -- How often it was continued since it was last stored.
    resumed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, chat),
    FOREIGN KEY (owner, chat) REFERENCES chats (owner, id) ON DELETE CASCADE ON UPDATE CASCADE
) STRICT, WITHOUT ROWID;
