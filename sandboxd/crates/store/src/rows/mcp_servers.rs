//! Rows of the table `mcp_servers`.

use sandboxd_model::mcp::{McpServerRecord, McpServerSpec};

use super::{BadColumn, from_json, row, to_json};

row! {
    /// A wrapped server.
    McpServerRow {
        sandbox: String,
        name: String,
        cmd: String,
        args: String,
        cwd: Option<String>,
        env: String,
        unpinned: i64,
        allow_elicitation: i64,
        allow_sampling: i64,
        version: Option<String>,
        tools_hash: Option<String>,
        tools: String,
        created_at_ms: i64,
    }
}

impl From<&McpServerRecord> for McpServerRow {
    fn from(server: &McpServerRecord) -> Self {
        let spec = &server.spec;
        Self {
            sandbox: server.sandbox.to_string(),
            name: server.name.clone(),
            cmd: spec.cmd.clone(),
            args: to_json(&spec.args),
            cwd: spec.cwd.clone(),
            env: to_json(&spec.env),
            unpinned: spec.unpinned.into(),
            allow_elicitation: spec.allow_elicitation.into(),
            allow_sampling: spec.allow_sampling.into(),
            version: server.version.clone(),
            tools_hash: server.tools_hash.clone(),
            tools: to_json(&server.tools),
            created_at_ms: server.created_at_ms,
        }
    }
}

impl McpServerRow {
    pub(crate) fn record(self) -> Result<McpServerRecord, BadColumn> {
        Ok(McpServerRecord {
            sandbox: self.sandbox.parse().map_err(|_| BadColumn("sandbox"))?,
            name: self.name,
            spec: McpServerSpec {
                cmd: self.cmd,
                args: from_json("args", &self.args)?,
                cwd: self.cwd,
                env: from_json("env", &self.env)?,
                unpinned: self.unpinned != 0,
                allow_elicitation: self.allow_elicitation != 0,
                allow_sampling: self.allow_sampling != 0,
            },
            version: self.version,
            tools_hash: self.tools_hash,
            tools: from_json("tools", &self.tools)?,
            created_at_ms: self.created_at_ms,
        })
    }
}
