//! The tools that Anthropic's models know without being told: `bash_20250124` and `text_editor_20250728`.
//!
//! Names, inputs and words are those of Anthropic's documentation ("Bash tool", "Text editor tool"); they do what the tools of
//! this crate do, in the same sandbox.

mod editor;
mod shell;

use serde_json::{Value, json};

pub use editor::EditorInput;
pub use shell::ShellInput;

/// The tools as a request to Anthropic's messages lists them. They have no description and no schema there.
pub fn definitions() -> [Value; 2] {
    [
        json!({ "type": "bash_20250124", "name": "bash" }),
        json!({ "type": "text_editor_20250728", "name": "str_replace_based_edit_tool" }),
    ]
}
