//! The tool list of a server, and the digest by which a user approves it.
//!
//! The model reads names, descriptions and schemas, so a server that changes them later could make it do something that
//! the user has not approved. The digest covers every field of every tool. The order of tools and of fields does not
//! matter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Maximum number of tools of a server.
pub(super) const MAX_TOOLS: usize = 256;

/// Maximum number of names of each kind in the description of a change.
const MAX_NAMES: usize = 10;

/// Maximum number of characters of a name in the description of a change.
const MAX_NAME_CHARS: usize = 64;

/// Digests of tools, by their names.
pub(crate) type ToolDigests = BTreeMap<String, String>;

/// The tools of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolList {
    /// The tools as the server describes them.
    pub(super) tools: Vec<Value>,
    /// Digest of all tools: SHA-256 in hexadecimal.
    pub(super) hash: String,
    /// Digest of each tool.
    pub(super) digests: ToolDigests,
}

/// An approved tool list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Approved {
    pub(super) hash: String,
    /// Digests of the tools. Empty if they are not known.
    pub(super) tools: ToolDigests,
}

impl ToolList {
    /// Describes tools. A tool without a name has the empty one.
    pub(super) fn new(tools: Vec<Value>) -> Self {
        let of_tool = |tool: &Value| (name_of(tool).to_owned(), digest(canonical(tool).as_bytes()));
        let digests: ToolDigests = tools.iter().map(of_tool).collect();
        let mut all: Vec<String> = tools.iter().map(canonical).collect();
        all.sort_unstable();
        Self { hash: digest(all.join("\n").as_bytes()), digests, tools }
    }

    /// Describes what has changed since the tools with these digests.
    pub(super) fn changes_since(&self, approved: &ToolDigests) -> String {
        let added = self.digests.keys().filter(|name| !approved.contains_key(*name));
        let removed = approved.keys().filter(|name| !self.digests.contains_key(*name));
        let changed = self
            .digests
            .iter()
            .filter(|(name, digest)| approved.get(*name).is_some_and(|old| old != *digest));
        let parts = [
            ("added", names(added)),
            ("removed", names(removed)),
            ("changed", names(changed.map(|(name, _)| name))),
        ];
        let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
        parts.map(|(verb, names)| format!("{verb}: {names}")).collect::<Vec<_>>().join("; ")
    }
}

/// Name of a tool.
fn name_of(tool: &Value) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Lists some names. They are the server's, so control characters are escaped.
fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let mut names = names.map(|name| {
        let short: String = name.chars().take(MAX_NAME_CHARS).collect();
        format!("`{}`", short.escape_debug())
    });
    let shown: Vec<String> = names.by_ref().take(MAX_NAMES).collect();
    let more = names.count();
    let text = shown.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// The value as JSON without spaces, with the fields of each object in the order of their names.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields = sorted
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// SHA-256 in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> Value {
        json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
    }

    #[test]
    fn the_order_of_tools_and_fields_does_not_matter() {
        let text = r#"{"inputSchema":{"type":"object"},"description":"A","name":"a"}"#;
        let reordered = ToolList::new(vec![tool("b", "B"), serde_json::from_str(text).unwrap()]);
        assert_eq!(ToolList::new(vec![tool("a", "A"), tool("b", "B")]).hash, reordered.hash);
        assert_eq!(reordered.hash.len(), 64);
    }

    #[test]
    fn every_field_matters() {
        let hash = |tool: Value| ToolList::new(vec![tool]).hash;
        let tools = [
            tool("a", "A"),
            tool("a", "B"),
            tool("b", "A"),
            json!({ "name": "a", "description": "A", "inputSchema": { "type": ["object"] } }),
            json!({ "name": "a", "description": "A", "inputSchema": { "type": "object" }, "title": "" }),
        ];
        let hashes: std::collections::BTreeSet<_> = tools.into_iter().map(hash).collect();
        assert_eq!(hashes.len(), 5);
        assert_ne!(hash(json!({ "name": "a", "x": [1, 2] })), hash(json!({ "name": "a", "x": [2, 1] })));
    }

    #[test]
    fn a_change_is_described() {
        let before = ToolList::new(vec![tool("a", "A"), tool("b", "B"), tool("c", "C")]);
        let after = ToolList::new(vec![tool("a", "A"), tool("b", "other"), tool("d\n", "D")]);
        assert_eq!(after.changes_since(&before.digests), "added: `d\\n`; removed: `c`; changed: `b`");
        let many = ToolList::new((0..12).map(|number| tool(&number.to_string(), "")).collect());
        assert!(many.changes_since(&ToolDigests::new()).ends_with("and 2 more"));
    }
}
