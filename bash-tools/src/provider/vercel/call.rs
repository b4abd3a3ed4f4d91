//! A call of Vercel's API: the request, its deadline, and whether it is retried.
//!
//! If the outcome is unknown, only a GET is retried. A 429 means that nothing was done, so any call is retried after
//! the time that it names, unless that is long.

use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use uuid::Uuid;

use super::fault::Fault;

/// Deadline of a call that only reads, or ends a command.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Deadline for Vercel's confirmation that a command has started.
pub(super) const START: Duration = Duration::from_secs(20);

/// Deadline of a call that creates or wakes a sandbox. It may fetch a repository or a snapshot first.
pub(super) const ACTION_TIMEOUT: Duration = Duration::from_secs(120);

/// Deadline of a call that carries files.
pub(super) const TRANSFER: Duration = Duration::from_secs(300);

/// Maximum number of retries.
const MAX_RETRIES: u32 = 2;

/// Pause before the first retry. It doubles for the second, with up to half of it added at random.
const PAUSE: Duration = Duration::from_millis(400);

/// Maximum delay that is accepted from Vercel. A longer one is reported as an error.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(20);

/// Characters of an id or a name that are not escaped in a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A request that can be sent again.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Body,
    pub(super) limit: Duration,
}

/// Body of the request.
#[derive(Clone)]
pub(super) enum Body {
    Empty,
    Json(Bytes),
    /// A gzip-compressed tar archive, and the directory to unpack it in.
    Archive(Bytes, &'static str),
}

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, query: Vec::new(), body: Body::Empty, limit: READ_TIMEOUT }
    }

    pub(super) fn delete(path: String) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(super) fn post(path: String) -> Self {
        Self { method: Method::POST, ..Self::get(path) }
    }

    pub(super) fn json(self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("bodies are maps of text and numbers, which JSON has");
        Self { body: Body::Json(body.into()), ..self }
    }

    pub(super) fn archive(self, archive: Bytes, into: &'static str) -> Self {
        Self { body: Body::Archive(archive, into), ..self }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Delay before a retry, if the call is retried.
    pub(super) fn pause_after(&self, fault: &Fault, tries: u32) -> Option<Duration> {
        if tries >= MAX_RETRIES {
            return None;
        }
        if let Fault::Refused { status: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(pause), .. } = fault
        {
            return (*pause <= MAX_RETRY_AFTER).then_some(*pause);
        }
        // A call that exceeded its deadline is not retried.
        let is_silent = matches!(fault, Fault::Deadline { .. });
        let is_temporary =
            fault.is_uncertain() && !is_silent || fault.status() == Some(StatusCode::TOO_MANY_REQUESTS);
        let chance = u32::from(Uuid::new_v4().as_bytes()[0]);
        (self.method == Method::GET && is_temporary)
            .then(|| (PAUSE + PAUSE * chance / (2 * u32::from(u8::MAX))) * 2u32.pow(tries))
    }
}

/// Path in version 2 of the API. Ids may contain any character.
pub(super) fn path(segments: &[&str]) -> String {
    let mut path = "/v2/sandboxes".to_owned();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, SEGMENT));
    }
    path
}
