-- MCP servers of third parties that run in sandboxes. A server may outlive its sandbox for a moment, until the sandbox of
-- its own is deleted too.
CREATE TABLE mcp_servers (
    sandbox TEXT NOT NULL,
    name TEXT NOT NULL,
    cmd TEXT NOT NULL,
    args TEXT NOT NULL,
    cwd TEXT,
    -- Variables with their values, as JSON.
    env TEXT NOT NULL,
    -- 0 or 1.
    unpinned INTEGER NOT NULL,
    allow_elicitation INTEGER NOT NULL,
    allow_sampling INTEGER NOT NULL,
    version TEXT,
    tools_hash TEXT,
    -- Digests by names, as JSON.
    tools TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY (sandbox, name)
) STRICT;
