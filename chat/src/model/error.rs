//! Errors of models. Every message is for the user, and none contains a key.

use std::borrow::Cow;
use std::time::Duration;

/// Result of a request to a model.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a model did not answer, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection to the server failed.
    #[error("the model's server at {host} does not respond{}", connect_advice(source))]
    Unreachable {
        /// Host with its port.
        host: String,
        /// Cause.
        source: reqwest::Error,
    },
    /// The server rejected the request.
    #[error("the model's server rejects the request (status {status}): {message}{}", refusal_advice(*status, *retry_after))]
    Refused {
        /// HTTP status.
        status: u16,
        /// The server's message, shortened.
        message: String,
        /// Requested delay, if it is given in seconds (RFC 9110 section 10.2.3).
        retry_after: Option<Duration>,
    },
    /// The server reported an error in the middle of its answer.
    #[error("the model's server reports an error: {message}")]
    Reported {
        /// The server's message, shortened.
        message: String,
    },
    /// The answer does not match the provider's API.
    #[error("the model's server sent an invalid answer: {what}")]
    Garbage {
        /// What is wrong with it.
        what: String,
    },
    /// The answer ended before it was complete.
    #[error("the model's answer ended before it was complete")]
    Cut,
    /// The server was silent for too long.
    #[error("the model's server was silent for {} seconds", .after.as_secs())]
    Silent {
        /// Duration of the silence.
        after: Duration,
    },
    /// The answer is too long.
    #[error("the model's answer is longer than {limit} bytes")]
    TooLong {
        /// Maximum length.
        limit: usize,
    },
    /// The answer takes too long.
    #[error("the model's answer is not complete after {} minutes", .after.as_secs() / 60)]
    Slow {
        /// Time limit.
        after: Duration,
    },
    /// The input of a tool call is too long.
    #[error("the model calls a tool with an input of more than {limit} bytes")]
    InputTooLong {
        /// Maximum length.
        limit: usize,
    },
    /// The answer has too many tool calls.
    #[error("the model calls more than {limit} tools in one answer")]
    TooManyCalls {
        /// Maximum number.
        limit: usize,
    },
    /// The server's address is invalid.
    #[error("the address of the model's server {0}")]
    BadAddress(BadAddress),
    /// The key cannot be sent.
    #[error("the key of the model's server contains characters that are not allowed in a header")]
    BadKey,
    /// The HTTP client could not be created.
    #[error("the HTTP client for models cannot be created")]
    Setup(#[source] reqwest::Error),
}

/// What is wrong with the address of a model's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// Another scheme, or no host.
    #[error("must be an http or https URL")]
    NotHttp,
    /// A password would appear in logs.
    #[error("must not have a name or password in it; set the key separately")]
    Credentials,
    /// The path of each request is appended to it.
    #[error("must not have a query or a fragment")]
    Query,
}

fn connect_advice(source: &reqwest::Error) -> &'static str {
    if source.is_connect() { "; is it running, and is its address correct?" } else { "" }
}

fn refusal_advice(status: u16, retry_after: Option<Duration>) -> Cow<'static, str> {
    if let Some(wait) = retry_after {
        return format!("; try again in {} seconds", wait.as_secs().max(1)).into();
    }
    let advice = match status {
        300..=399 => "; set its address to the one that it redirects to",
        401 => "; check the key",
        403 => "; check the permissions of the key",
        404 => "; check the address and the model's name (Ollama has a model after `ollama pull`)",
        429 => "; wait a little, or check the limits of the key",
        503 | 529 => "; it is overloaded, try again later",
        _ => "",
    };
    advice.into()
}

impl Error {
    /// Returns the cause, for the log.
    pub fn source_text(&self) -> Option<String> {
        std::error::Error::source(self).map(ToString::to_string)
    }
}
