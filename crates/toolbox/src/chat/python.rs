//! Result of the tool `python`.

use sandbox_api::context::{Display, RunError, RunStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Result of `python`: the state of a run, during it or at its end. Each value is complete, not a difference from the
/// previous one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PythonOutput {
    /// How the run ended.
    pub status: PythonStatus,
    /// End of standard output. At most as many characters as configured.
    pub stdout: String,
    /// The same of standard error, followed by a notice if the code did not end by itself.
    pub stderr: String,
    /// Number of characters of standard output that are missing in `stdout`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_truncated_chars: Option<u64>,
    /// Number of characters of standard error that are missing in `stderr`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_truncated_chars: Option<u64>,
    /// What the code displayed, such as figures, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub displays: Vec<Shown>,
    /// Value of the last expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Shown>,
    /// The error that ended the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CodeError>,
    /// Whether the variables of earlier calls were lost before this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarted: bool,
    /// Number of displays that are missing, because a result has at most
    /// [`MAX_SHOWN_BYTES`](Self::MAX_SHOWN_BYTES) of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_displays: u64,
}

/// State of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PythonStatus {
    /// It still runs.
    #[default]
    Running,
    /// The code ran to its end.
    Ok,
    /// An error ended the code.
    Error,
    /// The time limit expired.
    Timeout,
    /// The run was interrupted.
    Interrupted,
    /// The interpreter ended.
    Died,
    /// The interpreter was killed because memory was short.
    OutOfMemory,
    /// The sandbox stopped, so the outcome is unknown.
    Lost,
}

/// A value in the formats that it supports. All of it comes from the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// HTML. It must not be shown without isolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// An SVG image. It may contain scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    /// A PNG image in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
    /// For a model: the user sees an image or a table that is not part of this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An error of code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeError {
    /// Name of its type, such as `ZeroDivisionError`.
    pub name: String,
    /// Message.
    pub value: String,
    /// Where it happened, as the interpreter prints it.
    pub traceback: String,
}

impl PythonOutput {
    /// Maximum size of the displays and the result together, in bytes.
    pub const MAX_SHOWN_BYTES: usize = 1024 * 1024;

    /// Returns what a model gets: texts. Images and HTML are for the user, and only mentioned.
    pub fn for_model(&self) -> Self {
        let displays = self.displays.iter().map(Shown::for_model).collect();
        Self { displays, result: self.result.as_ref().map(Shown::for_model), ..self.clone() }
    }
}

impl Shown {
    /// Size of all formats in bytes.
    pub fn bytes(&self) -> usize {
        let texts = [&self.text, &self.html, &self.markdown, &self.svg, &self.png];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        texts + self.json.as_ref().map_or(0, |json| json.to_string().len())
    }

    fn for_model(&self) -> Self {
        let note = match (&self.png, &self.svg, &self.html) {
            (Some(_), _, _) | (_, Some(_), _) => Some("the user sees this as an image"),
            (_, _, Some(_)) if self.text.is_some() => Some("the user sees this as a table or formatted text"),
            _ => None,
        };
        let has_text = self.text.is_some() || self.markdown.is_some();
        Self {
            text: self.text.clone(),
            html: self.html.clone().filter(|_| !has_text),
            markdown: self.markdown.clone(),
            json: self.json.clone().filter(|_| !has_text),
            svg: None,
            png: None,
            note: note.map(str::to_owned),
        }
    }
}

impl From<Display> for Shown {
    fn from(display: Display) -> Self {
        let Display { text, html, markdown, json, svg, png } = display;
        Self { text, html, markdown, json, svg, png, note: None }
    }
}

impl From<RunError> for CodeError {
    fn from(error: RunError) -> Self {
        let RunError { name, value, traceback } = error;
        Self { name, value, traceback }
    }
}

impl From<RunStatus> for PythonStatus {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Ok => Self::Ok,
            RunStatus::Error => Self::Error,
            RunStatus::Timeout => Self::Timeout,
            RunStatus::Interrupted => Self::Interrupted,
            RunStatus::Died => Self::Died,
            RunStatus::OutOfMemory => Self::OutOfMemory,
            RunStatus::Lost => Self::Lost,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_model_gets_texts_and_no_images() {
        let shown = |value| serde_json::from_value::<Shown>(value).unwrap();
        let output = PythonOutput {
            status: PythonStatus::Ok,
            displays: vec![
                shown(json!({ "text": "<Figure>", "png": "iVBORw0=" })),
                shown(json!({ "html": "<b>only</b>" })),
            ],
            result: Some(shown(json!({ "text": "   a\n0  1", "html": "<table></table>", "json": [1] }))),
            ..PythonOutput::default()
        };
        assert_eq!(
            serde_json::to_value(output.for_model()).unwrap(),
            json!({
                "status": "ok", "stdout": "", "stderr": "",
                "displays": [
                    { "text": "<Figure>", "note": "the user sees this as an image" },
                    { "html": "<b>only</b>" },
                ],
                "result": { "text": "   a\n0  1", "note": "the user sees this as a table or formatted text" },
            })
        );
        assert_eq!(output.displays[0].bytes(), 16);
    }
}
