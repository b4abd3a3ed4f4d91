//! Definitions of the tools for a model.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{input, output};

/// The tools, in the order of their definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// Runs a command.
    Bash,
    /// Returns what a command has written since.
    BashOutput,
    /// Ends a command.
    BashKill,
    /// Lists commands.
    BashList,
    /// Reads lines of a text file.
    Read,
    /// Writes a file.
    Write,
    /// Replaces text in a file.
    Edit,
    /// Searches contents and names of files.
    Search,
    /// Opens a terminal.
    TerminalOpen,
    /// Types into a terminal.
    TerminalSend,
    /// Returns the screen of a terminal.
    TerminalRead,
    /// Ends a terminal.
    TerminalClose,
    /// Lists terminals.
    TerminalList,
    /// Shows a server to the user.
    PreviewUrl,
    /// Returns a link that downloads a file.
    DownloadLink,
    /// Opens a sandbox.
    SandboxOpen,
    /// Describes the sandbox.
    SandboxInfo,
    /// Returns skills.
    Skills,
    /// Runs a command in a repository.
    RepositoryBash,
    /// Copies a file of the host into the sandbox.
    Upload,
    /// Copies a file of the sandbox to the host.
    Download,
}

/// Definition of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Name by which the model calls it.
    pub name: &'static str,
    /// Human-readable title.
    pub title: &'static str,
    /// Purpose and usage, for the model. At most [`Definition::MAX_DESCRIPTION_CHARS`].
    pub description: String,
    /// JSON Schema (draft 2020-12) of the arguments, an object.
    pub input_schema: Map<String, Value>,
    /// JSON Schema of the structured result, an object. Absent if a result may be an image, because hosts drop the image
    /// if there is a structured result.
    pub output_schema: Option<Map<String, Value>>,
    /// What a host may assume about a call.
    pub hints: Hints,
}

/// What a host may assume about a call (the annotations of MCP's tools).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// Nothing changes.
    pub read_only: bool,
    /// Something may be lost.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// The tool may reach the internet.
    pub open_world: bool,
}

impl Definition {
    /// Maximum length of a description. Some hosts cut longer ones.
    pub const MAX_DESCRIPTION_CHARS: usize = 2000;

    /// Defines a tool with the arguments `I`, without an output schema.
    pub(crate) fn of<I: JsonSchema>(
        name: &'static str,
        title: &'static str,
        hints: Hints,
        description: &str,
    ) -> Self {
        Self {
            name,
            title,
            description: one_line(description),
            input_schema: schema::<I>(),
            output_schema: None,
            hints,
        }
    }
}

pub(crate) const READS: Hints =
    Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
pub(crate) const CHANGES: Hints =
    Hints { read_only: false, destructive: true, idempotent: false, open_world: false };

impl Tool {
    /// The tools that every host offers.
    pub const ALL: [Self; 19] = [
        Self::Bash,
        Self::BashOutput,
        Self::BashKill,
        Self::BashList,
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Search,
        Self::TerminalOpen,
        Self::TerminalSend,
        Self::TerminalRead,
        Self::TerminalClose,
        Self::TerminalList,
        Self::PreviewUrl,
        Self::DownloadLink,
        Self::SandboxOpen,
        Self::SandboxInfo,
        Self::Skills,
        Self::RepositoryBash,
    ];

    /// The tools for files of the host. Offered only with a directory to which they are confined.
    pub const WITH_ROOT: [Self; 2] = [Self::Upload, Self::Download];

    /// Name by which the model calls the tool.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::BashOutput => "bash_output",
            Self::BashKill => "bash_kill",
            Self::BashList => "bash_list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Search => "search",
            Self::TerminalOpen => "terminal_open",
            Self::TerminalSend => "terminal_send",
            Self::TerminalRead => "terminal_read",
            Self::TerminalClose => "terminal_close",
            Self::TerminalList => "terminal_list",
            Self::PreviewUrl => "preview_url",
            Self::DownloadLink => "download_link",
            Self::SandboxOpen => "sandbox_open",
            Self::SandboxInfo => "sandbox_info",
            Self::Skills => "skills",
            Self::RepositoryBash => "repository_bash",
            Self::Upload => "upload",
            Self::Download => "download",
        }
    }

    /// Returns the tool with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain(Self::WITH_ROOT).find(|tool| tool.name() == name)
    }

    /// Whether a call is for a sandbox that it or its host names.
    pub(crate) fn is_in_sandbox(self) -> bool {
        !matches!(self, Self::SandboxOpen | Self::RepositoryBash)
    }

    /// Describes the tool.
    pub fn definition(self) -> Definition {
        let (title, hints, input_schema, output_schema) = match self {
            Self::Bash => (
                "Run a command",
                Hints { open_world: true, ..CHANGES },
                schema::<input::Bash>(),
                schema::<output::CommandResult>(),
            ),
            Self::BashOutput => (
                "Read a command's output",
                READS,
                schema::<input::BashOutput>(),
                schema::<output::CommandResult>(),
            ),
            Self::BashKill => (
                "End a command",
                Hints { idempotent: true, ..CHANGES },
                schema::<input::BashKill>(),
                schema::<output::Killed>(),
            ),
            Self::BashList => {
                ("List commands", READS, schema::<input::BashList>(), schema::<output::Commands>())
            }
            Self::Read => ("Read a file", READS, schema::<input::Read>(), schema::<output::FileText>()),
            Self::Write => (
                "Write a file",
                Hints { idempotent: true, ..CHANGES },
                schema::<input::Write>(),
                schema::<output::Written>(),
            ),
            Self::Edit => ("Edit a file", CHANGES, schema::<input::Edit>(), schema::<output::Edited>()),
            Self::Search => ("Search files", READS, schema::<input::Search>(), schema::<output::Found>()),
            Self::TerminalOpen => (
                "Open a terminal",
                Hints { open_world: true, ..CHANGES },
                schema::<input::TerminalOpen>(),
                schema::<output::TerminalScreen>(),
            ),
            Self::TerminalSend => (
                "Type into a terminal",
                Hints { open_world: true, ..CHANGES },
                schema::<input::TerminalSend>(),
                schema::<output::TerminalScreen>(),
            ),
            Self::TerminalRead => (
                "Read a terminal's screen",
                READS,
                schema::<input::TerminalRead>(),
                schema::<output::TerminalScreen>(),
            ),
            Self::TerminalClose => (
                "Close a terminal",
                CHANGES,
                schema::<input::TerminalClose>(),
                schema::<output::TerminalClosed>(),
            ),
            Self::TerminalList => {
                ("List terminals", READS, schema::<input::TerminalList>(), schema::<output::Terminals>())
            }
            Self::PreviewUrl => (
                "Show a server",
                Hints { read_only: false, ..READS },
                schema::<input::PreviewUrl>(),
                schema::<output::Preview>(),
            ),
            Self::DownloadLink => (
                "Offer a file for download",
                Hints { read_only: false, ..READS },
                schema::<input::DownloadLink>(),
                schema::<output::FileLink>(),
            ),
            Self::SandboxOpen => (
                "Open a sandbox",
                Hints { read_only: false, idempotent: false, ..READS },
                schema::<input::SandboxOpen>(),
                schema::<output::Opened>(),
            ),
            Self::SandboxInfo => {
                ("Describe the sandbox", READS, schema::<input::SandboxInfo>(), schema::<output::Info>())
            }
            Self::Skills => ("Read skills", READS, schema::<input::Skills>(), schema::<output::Skills>()),
            Self::RepositoryBash => (
                "Run a command in a repository",
                Hints { open_world: true, ..READS },
                schema::<input::RepositoryBash>(),
                schema::<output::RepositoryResult>(),
            ),
            Self::Upload => (
                "Upload a file",
                Hints { idempotent: true, ..CHANGES },
                schema::<input::Upload>(),
                schema::<output::Uploaded>(),
            ),
            Self::Download => (
                "Download a file",
                Hints { idempotent: true, ..CHANGES },
                schema::<input::Download>(),
                schema::<output::Downloaded>(),
            ),
        };
        let input_schema = if self.is_in_sandbox() { with_sandbox(input_schema) } else { input_schema };
        Definition {
            name: self.name(),
            title,
            description: self.description(),
            input_schema,
            output_schema: (self != Self::Read).then_some(output_schema),
            hints,
        }
    }
}

/// Joins the lines of a text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Adds the argument of every tool that is for a sandbox.
fn with_sandbox(mut schema: Map<String, Value>) -> Map<String, Value> {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert(
            "sandbox".into(),
            json!({
                "type": "string",
                "description": "Handle from `sandbox_open`. Default: the sandbox that the host assigned to this conversation.",
            }),
        );
    }
    schema
}

/// Self-contained schema, without parts that models do not need.
pub(crate) fn schema<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    match schema.to_value() {
        Value::Object(schema) => without_null(schema),
        _ => Map::new(),
    }
}

/// An optional field may be absent. Some models fill in every field that may be null, so the schema does not say that
/// it may be null. It is accepted nevertheless.
fn without_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    schema
        .into_iter()
        .map(|(name, value)| match value {
            Value::Object(value) => (name, Value::Object(without_null(value))),
            other => (name, other),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_short() {
        for tool in Tool::ALL {
            let definition = tool.definition();
            let chars = definition.description.chars().count();
            assert!(chars <= Definition::MAX_DESCRIPTION_CHARS, "{}: {chars}", definition.name);
        }
    }

    #[test]
    fn names_are_unique_and_valid() {
        for tool in Tool::ALL {
            assert_eq!(Tool::of_name(tool.name()), Some(tool));
            assert!(tool.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        }
        assert_eq!(Tool::of_name("Bash"), None);
    }

    #[test]
    fn schemas_are_objects_without_references() {
        for tool in Tool::ALL {
            let definition = tool.definition();
            for schema in std::iter::once(&definition.input_schema).chain(&definition.output_schema) {
                assert_eq!(schema["type"], "object", "{}", definition.name);
                let text = Value::Object(schema.clone()).to_string();
                assert!(!text.contains("$ref") && !text.contains("\"null\""), "{text}");
            }
            assert_eq!(definition.input_schema["additionalProperties"], false, "{}", definition.name);
        }
    }

    #[test]
    fn the_schema_of_bash_has_the_published_arguments() {
        let schema = Tool::Bash.definition().input_schema;
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        for name in ["command", "cwd", "timeoutMs", "waitMs", "background", "sandbox"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        assert_eq!(schema["required"], json!(["command"]));
        assert_eq!(schema["properties"]["timeoutMs"]["type"], "integer");
    }
}
