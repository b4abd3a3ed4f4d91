//! A call of Vercel's API: what is asked, for how long, and whether it is asked twice.
//!
//! Only a GET is sent again where nobody knows what became of it. A 429 says that nothing was done, so whatever it refused is
//! sent again after the time it names, unless that is long.

use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use uuid::Uuid;

use super::fault::Fault;

/// Deadline of a call that only looks, or ends a command.
pub(super) const LOOK: Duration = Duration::from_secs(30);

/// How long Vercel may take to say that a command has started.
pub(super) const START: Duration = Duration::from_secs(20);

/// Deadline of a call that makes or wakes a sandbox, which may fetch a repository or a snapshot first.
pub(super) const ACT: Duration = Duration::from_secs(120);

/// Deadline of a call that carries files.
pub(super) const TRANSFER: Duration = Duration::from_secs(300);

/// Times that a call is sent again.
const MAX_RETRIES: u32 = 2;

/// Pause before the first of them, and twice that before the second; half as much again by chance.
const PAUSE: Duration = Duration::from_millis(400);

/// Longest time that Vercel may ask to wait for. Whoever must wait longer is told so.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(20);

/// What an id or a name keeps in a path.
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

/// What goes with it.
#[derive(Clone)]
pub(super) enum Body {
    Empty,
    Json(Bytes),
    /// A tar archive in gzip, to be unpacked there.
    Archive(Bytes, &'static str),
}

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, query: Vec::new(), body: Body::Empty, limit: LOOK }
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

    /// How long to wait before the call is sent again, where it is.
    pub(super) fn pause_after(&self, fault: &Fault, tries: u32) -> Option<Duration> {
        if tries >= MAX_RETRIES {
            return None;
        }
        if let Fault::Refused { status: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(pause), .. } = fault
        {
            return (*pause <= MAX_RETRY_AFTER).then_some(*pause);
        }
        // Who was silent for a whole deadline is not given two more.
        let is_silent = matches!(fault, Fault::Deadline { .. });
        let is_passing =
            fault.is_uncertain() && !is_silent || fault.status() == Some(StatusCode::TOO_MANY_REQUESTS);
        let chance = u32::from(Uuid::new_v4().as_bytes()[0]);
        (self.method == Method::GET && is_passing)
            .then(|| (PAUSE + PAUSE * chance / (2 * u32::from(u8::MAX))) * 2u32.pow(tries))
    }
}

/// A path of the API's second version, whose ids may be anything.
pub(super) fn path(segments: &[&str]) -> String {
    let mut path = "/v2/sandboxes".to_owned();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, SEGMENT));
    }
    path
}
