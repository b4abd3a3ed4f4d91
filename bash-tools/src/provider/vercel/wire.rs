//! Vercel's words, as far as they are used here: the REST API of `@vercel/sandbox` 3.5.
//!
//! Every field that is not optional there is read as if it might be missing wherever nothing here needs it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// Body of `POST /v2/sandboxes`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateSandbox<'a> {
    pub(super) project_id: &'a str,
    pub(super) name: &'a str,
    pub(super) runtime: &'a str,
    pub(super) resources: Resources,
    /// Milliseconds.
    pub(super) timeout: u64,
    pub(super) ports: &'a [u16],
    pub(super) persistent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<Source<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Resources {
    pub(super) vcpus: u64,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Source<'a> {
    Git {
        url: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        revision: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
}

/// A sandbox with its present session.
#[derive(Debug, Deserialize)]
pub(super) struct Found {
    pub(super) sandbox: Sandbox,
    pub(super) session: Session,
    #[serde(default)]
    pub(super) routes: Vec<Route>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sandbox {
    /// Milliseconds since 1970; only ever compared.
    pub(super) created_at: Number,
}

#[derive(Debug, Deserialize)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Route {
    pub(super) url: String,
    pub(super) port: u16,
}

/// Body of `POST …/cmd`. Its environment may hold secrets, so it is not printed.
#[derive(Clone, Serialize)]
pub(super) struct StartCommand {
    pub(super) command: &'static str,
    pub(super) args: Vec<String>,
    pub(super) cwd: &'static str,
    pub(super) env: BTreeMap<String, String>,
    pub(super) sudo: bool,
    /// Milliseconds.
    pub(super) timeout: u64,
    /// Whether the answer is a stream that lasts until the command ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) wait: bool,
    /// Whether that stream has the command's output.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) logs: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Started {
    pub(super) command: Command,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Command {
    pub(super) id: String,
    /// None while it runs.
    pub(super) exit_code: Option<i32>,
    pub(super) duration_ms: Option<f64>,
}

/// A line of a command's stream. One with neither is nothing that is known here, and means nothing.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) command: Option<Command>,
    pub(super) stream: Option<String>,
    /// Text, or for the stream `error` an object.
    pub(super) data: Option<Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct Kill {
    pub(super) signal: u8,
}

#[derive(Debug, Serialize)]
pub(super) struct MakeDirectory {
    pub(super) path: &'static str,
    pub(super) recursive: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ReadFile<'a> {
    pub(super) path: &'a str,
    pub(super) cwd: &'static str,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) error: ErrorWords,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorWords {
    pub(super) code: String,
    pub(super) message: String,
}

/// As the API counts time.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
