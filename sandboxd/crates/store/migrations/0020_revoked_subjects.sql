-- JSON Web Tokens and child tokens of a subject that were issued until a time are not valid any more.
CREATE TABLE revoked_subjects (
    project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
    subject TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (project, subject)
) STRICT;
