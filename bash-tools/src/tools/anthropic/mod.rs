//! Tools that Anthropic's models know without a definition: `bash_20250124` and `text_editor_20250728`.
//!
//! Names, inputs and messages follow Anthropic's documentation ("Bash tool", "Text editor tool"). The tools run in
//! the same sandbox as the other tools of this crate.

mod editor;
mod shell;

use serde_json::{Value, json};

pub use editor::EditorInput;
pub use shell::ShellInput;

/// Entries for the tool list of a request to Anthropic's messages API. They have no description and no schema.
pub fn definitions() -> [Value; 2] {
    [
        json!({ "type": "bash_20250124", "name": "bash" }),
        json!({ "type": "text_editor_20250728", "name": "str_replace_based_edit_tool" }),
    ]
}
