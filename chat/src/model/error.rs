//! Why a model does not answer. Every message is for the person who asked; none has a key in it.

use std::borrow::Cow;
use std::time::Duration;

/// A model's answer.
pub type Result<T> = std::result::Result<T, Error>;

/// A model does not answer, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers at the address.
    #[error("the model's server at {host} does not answer{}", connect_advice(source))]
    Unreachable {
        /// With its port.
        host: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The server refuses.
    #[error("the model's server refuses (status {status}): {said}{}", refusal_advice(*status, *retry_after))]
    Refused {
        /// Of the answer.
        status: u16,
        /// The server's words, shortened.
        said: String,
        /// How long it asks to wait, where it says so in seconds (RFC 9110 section 10.2.3).
        retry_after: Option<Duration>,
    },
    /// The server reports a fault in the middle of its answer.
    #[error("the model's server reports: {said}")]
    Reported {
        /// The server's words, shortened.
        said: String,
    },
    /// The answer is not what the provider's interface says.
    #[error("the model's server answers something that is not understood: {what}")]
    Garbage {
        /// What is wrong with it.
        what: String,
    },
    /// The answer ended before it was complete.
    #[error("the model's answer broke off")]
    Cut,
    /// Nothing came for a while.
    #[error("the model's server was silent for {} seconds", .after.as_secs())]
    Silent {
        /// How long.
        after: Duration,
    },
    /// The answer is longer than any may be.
    #[error("the model's answer is longer than {limit} bytes")]
    TooLong {
        /// What it may be.
        limit: usize,
    },
    /// The server is busy with its answer for longer than any may take.
    #[error("the model's answer is not complete after {} minutes", .after.as_secs() / 60)]
    Slow {
        /// How long.
        after: Duration,
    },
    /// What a tool is called with is longer than any may be.
    #[error("the model calls a tool with more than {limit} bytes")]
    InputTooLong {
        /// What it may be.
        limit: usize,
    },
    /// More tools are called than one answer may call.
    #[error("the model calls more than {limit} tools at once")]
    TooManyCalls {
        /// How many it may be.
        limit: usize,
    },
    /// Nothing can be asked at the address that was given.
    #[error("the address of the model's server {0}")]
    BadAddress(BadAddress),
    /// The key that was given cannot be sent.
    #[error("the key of the model's server has characters that no header can have")]
    BadKey,
    /// Nothing can be sent from here.
    #[error("no model can be asked from here")]
    Setup(#[source] reqwest::Error),
}

/// What is wrong with the address of a model's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// Another scheme, or no host.
    #[error("must be one of http or https")]
    NotHttp,
    /// It would be in logs.
    #[error("must not have a name or password in it; keys are given apart from it")]
    Credentials,
    /// The path of what is asked is put behind it.
    #[error("must end with its path, without a query or a fragment")]
    Query,
}

fn connect_advice(source: &reqwest::Error) -> &'static str {
    if source.is_connect() { "; is it running, and is its address right?" } else { "" }
}

fn refusal_advice(status: u16, retry_after: Option<Duration>) -> Cow<'static, str> {
    if let Some(wait) = retry_after {
        return format!("; try again in {} seconds", wait.as_secs().max(1)).into();
    }
    let advice = match status {
        300..=399 => "; its address must be the one that it sends to",
        401 => "; check the key",
        403 => "; check what the key may be used for",
        404 => "; check the address and the model's name (Ollama has a model after `ollama pull`)",
        429 => "; wait a little, or check the limits of the key",
        503 | 529 => "; it has too much to do, try again later",
        _ => "",
    };
    advice.into()
}

impl Error {
    /// What is behind it, for the log.
    pub fn source_text(&self) -> Option<String> {
        std::error::Error::source(self).map(ToString::to_string)
    }
}
