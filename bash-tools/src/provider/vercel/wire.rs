//! Wire types of Vercel's REST API, as used by `@vercel/sandbox` 3.5.
//!
//! Fields that this crate does not need are optional, even if the API always sends them.

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

/// A sandbox with its current session.
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
    /// Milliseconds since 1970. Only compared for equality.
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

/// Body of `POST …/cmd`. Its environment may contain secrets, so it is not printed.
#[derive(Clone, Serialize)]
pub(super) struct StartCommand {
    pub(super) command: &'static str,
    pub(super) args: Vec<String>,
    pub(super) cwd: &'static str,
    pub(super) env: BTreeMap<String, String>,
    pub(super) sudo: bool,
    /// Milliseconds.
    pub(super) timeout: u64,
    /// Whether the response is a stream that lasts until the command ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) wait: bool,
    /// Whether that stream contains the command's output.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) logs: bool,
}

impl StartCommand {
    /// A command whose end is not awaited.
    pub(super) fn bash(args: Vec<String>, cwd: &'static str, timeout: Duration) -> Self {
        Self {
            command: "bash",
            args,
            cwd,
            env: BTreeMap::new(),
            sudo: false,
            timeout: millis(timeout),
            wait: false,
            logs: false,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Started {
    pub(super) command: Command,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Command {
    pub(super) id: String,
    /// `None` while the command runs.
    pub(super) exit_code: Option<i32>,
    pub(super) duration_ms: Option<f64>,
}

/// A line of a command's stream. A line with neither field is unknown and is ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) command: Option<Command>,
    pub(super) stream: Option<String>,
    /// Text, or an object for the stream `error`.
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
    pub(super) error: ErrorDetail,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorDetail {
    pub(super) code: String,
    pub(super) message: String,
}

/// Time in the API's unit.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
