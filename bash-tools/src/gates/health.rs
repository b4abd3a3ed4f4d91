//! Health of sandboxd.
//!
//! One check serves all requests of the next seconds, whatever its result, and concurrent requests share one check. A
//! request waits at most as long as one check may take.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use url::Url;

/// Deadline of a check.
const CHECK_TIMEOUT: Duration = Duration::from_millis(800);
/// How long a result is valid.
const VALIDITY: Duration = Duration::from_secs(5);
/// Maximum number of bytes that are read of a response.
const MAX_ANSWER_BYTES: usize = 4096;
/// Maximum number of characters of it in the log.
const MAX_MESSAGE_CHARS: usize = 200;

/// Checks the health of one sandboxd.
#[derive(Debug)]
pub(super) struct Health {
    url: String,
    client: Client,
    seen: Mutex<Option<Seen>>,
    /// Held during a check.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Instant,
    is_healthy: bool,
}

/// Why sandboxd is not healthy.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("it did not respond within {CHECK_TIMEOUT:?}")]
    Slow,
    #[error("it cannot be reached")]
    NotReached(#[source] reqwest::Error),
    #[error("it responded with status {status}: {message:?}")]
    Unhealthy { status: StatusCode, message: String },
    #[error("the response is not from sandboxd: {message:?}")]
    NotSandboxd { message: String },
}

/// Response of `GET /v1/health`, from any version of sandboxd.
#[derive(Debug, Deserialize)]
struct Answer {
    ok: Option<bool>,
    error: Option<String>,
}

impl Health {
    pub(super) fn new(orchestrator: &Url) -> Result<Self, reqwest::Error> {
        // sandboxd is reached directly at the configured address, without a proxy or redirects.
        let client = Client::builder().no_proxy().redirect(Policy::none());
        // An idle connection may have died unnoticed, which would say nothing about sandboxd.
        let client = client.pool_max_idle_per_host(0).build()?;
        let url = format!("{}/v1/health", orchestrator.as_str().trim_end_matches('/'));
        Ok(Self { url, client, seen: Mutex::new(None), turn: tokio::sync::Mutex::new(()) })
    }

    /// Returns the result of the last check while it is valid.
    pub(super) fn known(&self) -> Option<bool> {
        let seen = (*self.seen.lock().unwrap_or_else(PoisonError::into_inner))?;
        (seen.at.elapsed() < VALIDITY).then_some(seen.is_healthy)
    }

    /// Returns whether sandboxd is healthy, after a new check if necessary.
    pub(super) async fn is_healthy(&self) -> bool {
        let _turn = self.turn.lock().await;
        if let Some(is_healthy) = self.known() {
            return is_healthy;
        }
        let found = timeout(CHECK_TIMEOUT, self.check()).await.unwrap_or(Err(Failure::Slow));
        self.note(&found);
        found.is_ok()
    }

    async fn check(&self) -> Result<(), Failure> {
        let response = self.client.get(&self.url).send().await.map_err(Failure::NotReached)?;
        let status = response.status();
        let body = beginning(response).await.map_err(Failure::NotReached)?;
        let answer = serde_json::from_slice::<Answer>(&body).ok();
        match answer {
            Some(Answer { ok: Some(true), .. }) if status.is_success() => Ok(()),
            Some(Answer { error: Some(message), .. }) => {
                Err(Failure::Unhealthy { status, message: clipped(&message) })
            }
            _ if status.is_success() => {
                Err(Failure::NotSandboxd { message: clipped(&String::from_utf8_lossy(&body)) })
            }
            _ => Err(Failure::Unhealthy { status, message: clipped(&String::from_utf8_lossy(&body)) }),
        }
    }

    /// Stores the result, and logs it if it changed.
    fn note(&self, found: &Result<(), Failure>) {
        let now = Seen { at: Instant::now(), is_healthy: found.is_ok() };
        let before = self.seen.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        match found {
            Err(failure) if before.is_none_or(|before| before.is_healthy) => {
                let cause = std::error::Error::source(failure).map(ToString::to_string);
                tracing::warn!(url = %self.url, cause, "the bash tools are disabled, because sandboxd is not healthy: {failure}");
            }
            Ok(()) if before.is_some_and(|before| !before.is_healthy) => {
                tracing::info!(url = %self.url, "sandboxd is healthy again, and the bash tools are enabled");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Reads the beginning of a response and ignores the rest.
async fn beginning(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_ANSWER_BYTES - body.len())]);
        if body.len() == MAX_ANSWER_BYTES {
            break;
        }
    }
    Ok(body)
}

fn clipped(message: &str) -> String {
    let message = message.trim();
    if message.is_empty() {
        "(empty response)".to_owned()
    } else {
        message.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}
