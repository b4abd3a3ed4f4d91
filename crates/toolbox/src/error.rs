//! Why a tool failed. Every message is for the model.

use sandbox_api::ErrorCode;

use crate::InvalidOutput;

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments do not match the tool's schema.
    #[error("invalid arguments for `{tool}`: {source}")]
    Arguments {
        /// Name of the tool.
        tool: &'static str,
        /// What is wrong, with the name of the field.
        source: serde_json::Error,
    },
    /// An argument is out of range.
    #[error("`{field}` {problem}")]
    Argument {
        /// Name of the argument.
        field: &'static str,
        /// Rest of the sentence after the name.
        problem: String,
    },
    /// The call names no sandbox, and neither does its host.
    #[error(
        "this call names no sandbox: call `sandbox_open` first, and pass its `sandbox` in every further call"
    )]
    NoSandbox,
    /// The call names no sandbox, its host does not either, and the profile has no tool that opens one.
    #[error("this call names no sandbox: the host must send the header `X-Sandbox-Session`")]
    NoSession,
    /// The handle is unknown, or belongs to another client.
    #[error("there is no sandbox `{handle}`, or it has expired: call `sandbox_open` for another one")]
    UnknownSandbox {
        /// Handle as given.
        handle: String,
    },
    /// The host's name for its conversation cannot be used.
    #[error("the session that this host sent cannot be used: it {problem}")]
    Session {
        /// Rest of the sentence.
        problem: String,
    },
    /// The file does not exist.
    #[error("`{path}` does not exist")]
    NoFile {
        /// Path as given.
        path: String,
    },
    /// The file is not text.
    #[error("`{path}` is not a text file ({bytes} bytes): look at it with bash (`file`, `xxd`)")]
    NotText {
        /// Path as given.
        path: String,
        /// Size of the file.
        bytes: u64,
    },
    /// The file is an image that cannot be shown.
    #[error("`{path}` is an image that cannot be shown: {problem}")]
    Image {
        /// Path as given.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The file is too long for a result.
    #[error("`{path}` is longer than {max_bytes} bytes: read it in parts with the tool `read`")]
    TooLarge {
        /// Path as given.
        path: String,
        /// Limit in bytes.
        max_bytes: usize,
    },
    /// The search for skills failed.
    #[error("the skills could not be read: the search ended with exit code {exit_code}")]
    Skills {
        /// Exit code of the search.
        exit_code: i32,
    },
    /// The file does not have the line.
    #[error("`offset` is {offset}, and `{path}` has only {lines} lines")]
    NoLine {
        /// Path as given.
        path: String,
        /// Line as given.
        offset: u64,
        /// Number of lines of the file.
        lines: u64,
    },
    /// The call repeats one that was for another sandbox.
    #[error(
        "the sandbox of this call has changed since the user was asked: nothing was started, run the command again"
    )]
    OtherSandbox,
    /// The sandbox was deleted while the call was in progress.
    #[error(
        "the sandbox was deleted while this call ran: its files are lost, and the next call starts in a new one"
    )]
    Vanished,
    /// No directory of the host may be used.
    #[error("this server has no access to files of the user's machine")]
    NoRoot,
    /// The host has cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
    /// sandboxd failed or rejected the request.
    #[error("{}", sentence(source))]
    Client {
        /// The client's error.
        #[from]
        source: sandbox_client::Error,
    },
}

impl From<InvalidOutput> for Error {
    fn from(InvalidOutput { field, problem }: InvalidOutput) -> Self {
        Self::Argument { field, problem }
    }
}

impl Error {
    /// The failure of a request after the call has started something. The call must not start it again in a new sandbox.
    pub(crate) fn after_start(self) -> Self {
        match self {
            Self::Client { source } if is_gone(&source) => Self::Vanished,
            other => other,
        }
    }

    /// Adds the path to an error about a missing file.
    pub(crate) fn about(path: &str) -> impl Fn(sandbox_client::Error) -> Self {
        move |source| {
            let is_missing = source.body().is_some_and(|body| {
                body.code == ErrorCode::NotFound
                    && body.details.get("resource").is_some_and(|resource| resource == "file")
            });
            if is_missing { Self::NoFile { path: path.to_owned() } } else { source.into() }
        }
    }
}

/// Whether the daemon says that the sandbox does not exist.
pub(crate) fn is_gone(error: &sandbox_client::Error) -> bool {
    error.body().is_some_and(|body| {
        body.code == ErrorCode::NotFound
            && body.details.get("resource").is_some_and(|resource| resource == "sandbox")
    })
}

/// The daemon's message, and when a retry may help.
fn sentence(error: &sandbox_client::Error) -> String {
    let Some(body) = error.body() else { return error.to_string() };
    let retry =
        error.retry_after().map(|after| format!(" (retry after {} s)", after.as_secs())).unwrap_or_default();
    format!("{}{retry}", body.error)
}

/// Maximum number of characters of an error. Errors repeat arguments, which may be long.
const MAX_ERROR_CHARS: usize = 2000;

/// The text of an error for a model.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_argument_is_not_repeated_as_a_whole() {
        let wrong = serde_json::json!({ "path": vec!["x".repeat(9000)] });
        let source =
            serde_json::from_value::<crate::chat::ReadFileInput>(serde_json::json!({ "x".repeat(9000): 1 }))
                .unwrap_err();
        let error = Error::Arguments { tool: "readFile", source };
        let text = shortened(&error.to_string());
        assert!(text.starts_with("invalid arguments for `readFile`: unknown field `xxx"), "{text}");
        assert!(text.ends_with(" bytes)") && text.chars().count() < MAX_ERROR_CHARS + 30, "{text}");
        assert_eq!(shortened(&wrong["path"][0].as_str().unwrap()[..5]), "xxxxx");
    }
}
