//! Wrapped servers: MCP servers of third parties that run in a sandbox.

use std::fmt;

use sandbox_api::{SandboxId, StringMap};

use crate::{FieldError, limits};

/// Beginning of the session keys of the sandboxes that servers have for themselves. It is in no namespace of a surface,
/// so no tool reaches them.
pub const OWN_SANDBOX_KEYS: &str = "mcp-server:";

/// A wrapped server in the store.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServerRecord {
    /// Sandbox that it belongs to.
    pub sandbox: SandboxId,
    /// Its name, unique in the sandbox.
    pub name: String,
    /// What was registered.
    pub spec: McpServerSpec,
    /// Version of its package that the first start has chosen.
    pub version: Option<String>,
    /// Digest of the approved tool list.
    pub tools_hash: Option<String>,
    /// Digests of the approved tools, by their names.
    pub tools: StringMap,
    /// Time of the registration, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

/// How a wrapped server is started, and what it may do.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServerSpec {
    /// Program.
    pub cmd: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Working directory. `None` is the workspace.
    pub cwd: Option<String>,
    /// Environment variables. Their values are secret.
    pub env: StringMap,
    /// Whether each start may download the newest version of its package.
    pub unpinned: bool,
    /// Whether it may ask the host's user.
    pub allow_elicitation: bool,
    /// Whether it may use the host's model.
    pub allow_sampling: bool,
}

/// What is approved of a wrapped server. `None` keeps what was approved before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpApproval {
    /// Digest of the tool list, and the digests of the tools.
    pub tools: Option<(String, StringMap)>,
    /// Version of the package.
    pub version: Option<String>,
    /// Whether what was approved before stays.
    pub if_unset: bool,
}

impl McpServerRecord {
    /// Whether it runs in a sandbox of its own.
    pub fn has_own_sandbox(&self) -> bool {
        !self.spec.env.is_empty()
    }

    /// The record after an approval.
    #[must_use]
    pub fn approved(mut self, approval: McpApproval) -> Self {
        let keeps = |is_set: bool| approval.if_unset && is_set;
        if let Some((hash, tools)) = approval.tools.filter(|_| !keeps(self.tools_hash.is_some())) {
            (self.tools_hash, self.tools) = (Some(hash), tools);
        }
        if let Some(version) = approval.version.filter(|_| !keeps(self.version.is_some())) {
            self.version = Some(version);
        }
        self
    }
}

impl fmt::Debug for McpServerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerRecord")
            .field("sandbox", &self.sandbox)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Does not show variables.
impl fmt::Debug for McpServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerSpec").field("cmd", &self.cmd).finish_non_exhaustive()
    }
}

/// Checks the name of a wrapped server: a part of a URL's path.
pub fn name(given: String) -> Result<String, FieldError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_valid = (1..=limits::MAX_MCP_NAME_BYTES).contains(&given.len()) && given.bytes().all(is_allowed);
    // A path with such a segment means another one.
    if !is_valid || given.starts_with('.') {
        let max = limits::MAX_MCP_NAME_BYTES;
        return Err(FieldError::new(
            "name",
            format!("must be 1 to {max} letters, digits, `-`, `_` or `.`, and not begin with `.`"),
        ));
    }
    Ok(given)
}

/// Checks a SHA-256 digest in hexadecimal.
pub fn digest(field: &str, given: String) -> Result<String, FieldError> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match given.len() == 64 && given.bytes().all(is_hex) {
        true => Ok(given),
        false => Err(FieldError::new(field, "must be 64 hexadecimal digits in lower case")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_part_of_a_path() {
        assert!(["a", "server-files_1.2"].into_iter().all(|text| name(text.to_owned()).is_ok()));
        let long = "a".repeat(65);
        assert!(
            ["", ".", "..", ".a", "a/b", "a:b", "ü", &long]
                .into_iter()
                .all(|text| name(text.to_owned()).is_err())
        );
    }

    #[test]
    fn the_first_approval_stays_if_requested() {
        let spec = McpServerSpec {
            cmd: "x".into(),
            args: Vec::new(),
            cwd: None,
            env: [("KEY".to_owned(), "value".to_owned())].into(),
            unpinned: false,
            allow_elicitation: false,
            allow_sampling: false,
        };
        let record = McpServerRecord {
            sandbox: "sbx_0123456789abcdef".parse().unwrap(),
            name: "a".into(),
            spec,
            version: None,
            tools_hash: None,
            tools: StringMap::new(),
            created_at_ms: 0,
        };
        let approval = |hash: &str, if_unset| McpApproval {
            tools: Some((hash.to_owned(), StringMap::new())),
            version: None,
            if_unset,
        };
        let first = record.approved(approval("1", true));
        let second = first.clone().approved(approval("2", true));
        assert_eq!((first.tools_hash.as_deref(), second.tools_hash.as_deref()), (Some("1"), Some("1")));
        assert_eq!(second.approved(approval("2", false)).tools_hash.as_deref(), Some("2"));
        assert!(!format!("{first:?} {:?}", first.spec).contains("value"));
    }
}
