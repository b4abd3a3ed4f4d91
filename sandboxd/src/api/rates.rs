//! Limits on the number of requests, for each subject and for each address.
//!
//! Reads, commands and creates are counted apart, so that a program that reads too often can still run commands. Only
//! requests with a valid token are counted: others are refused in any case, and must not use up the count of an address that
//! they share with a client. Wrong tokens have a stricter limit of their own (`auth`). The operator's token has none, because
//! a chat app sends the requests of all its users with it.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use listen::rate::{Allowed, Exceeded, Rate};
use listen::throttle::source_of;

use super::client_address::{OfSurface, peer_of};
use super::error::{ApiError, HttpError};
use super::verb;
use crate::model::rates::{RateClass, RateSettings};
use crate::model::{Owner, Principal, ProjectName, limits};

/// How much is left (draft-ietf-httpapi-ratelimit-headers-10).
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What is allowed (same source).
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Seconds for which a limit holds.
const WINDOW_SECONDS: u32 = 60;

/// Verbs of `POST` requests that only read.
const READS: [&str; 7] = [":check", ":glob", ":grep", ":list", ":read", ":stat", ":touch"];

/// Ends of paths whose `POST` requests create something that lasts.
const CREATES: [&str; 10] = [
    "/child-tokens",
    "/links",
    "/mcp",
    "/projects",
    "/sandboxes",
    "/snapshots",
    "/tokens",
    ":fork",
    ":import",
    ":link",
];

/// Whose requests are counted together: those of an owner. Tokens without a subject are counted apart, because each may be
/// that of another program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Subject {
    owner: Owner,
    token: Option<Arc<str>>,
}

/// The counts of one class.
#[derive(Debug)]
struct Counts {
    subjects: Rate<Subject, ProjectName>,
    addresses: Rate<IpAddr>,
}

/// Counts requests.
#[derive(Debug)]
pub(super) struct Rates {
    settings: Arc<RateSettings>,
    /// In the order of [`RateClass::ALL`]. `None` does not limit.
    counts: [Option<Counts>; 3],
}

impl Rates {
    pub(super) fn new(settings: RateSettings) -> Self {
        let counts = RateClass::ALL.map(|class| settings.of(class).map(Counts::new));
        Self { settings: Arc::new(settings), counts }
    }

    pub(super) fn settings(&self) -> &Arc<RateSettings> {
        &self.settings
    }

    /// Counts a request of a subject, and of an address if it came over a connection of its own.
    fn take(
        &self,
        class: RateClass,
        subject: Subject,
        address: Option<IpAddr>,
    ) -> Result<Option<Allowed>, Exceeded> {
        let Some(counts) = &self.counts[class as usize] else { return Ok(None) };
        let project = subject.owner.project.clone();
        // First: what is refused to a subject must not use up what others at its address may send.
        let allowed = counts.subjects.take(subject, project)?;
        if let Some(address) = address {
            counts.addresses.take(source_of(address), ())?;
        }
        Ok(Some(allowed))
    }
}

impl Subject {
    fn of(principal: &Principal) -> Self {
        let Principal { owner, token, .. } = principal;
        Self { owner: owner.clone(), token: owner.subject.is_none().then(|| Arc::clone(token)) }
    }
}

impl Counts {
    fn new(per_minute: NonZeroU32) -> Self {
        let of_address =
            per_minute.saturating_mul(NonZeroU32::MIN.saturating_add(limits::SUBJECTS_PER_ADDRESS - 1));
        Self {
            subjects: Rate::new(per_minute, limits::MAX_COUNTED),
            addresses: Rate::new(of_address, limits::MAX_COUNTED),
        }
    }
}

/// Rejects a request if its subject or its address has sent too many. Others get headers that say how many are left.
pub(super) async fn check(State(rates): State<Arc<Rates>>, request: Request, next: Next) -> Response {
    let principal = request.extensions().get::<Arc<Principal>>();
    let Some(principal) = principal.filter(|principal| !principal.is_operator) else {
        return next.run(request).await;
    };
    let path = request.extensions().get::<MatchedPath>().map(|path| verb::join(path.as_str()));
    let class = class_of(request.method(), path.as_deref().unwrap_or_default());
    // A surface's own requests have the address of its caller, whose request was counted.
    let is_direct = request.extensions().get::<OfSurface>().is_none();
    let address = is_direct.then(|| peer_of(request.extensions()));
    match rates.take(class, Subject::of(principal), address) {
        Ok(allowed) => {
            let mut response = next.run(request).await;
            if let Some(Allowed { per_minute, remaining }) = allowed {
                write_headers(response.headers_mut(), class, per_minute, remaining, 0);
            }
            response
        }
        Err(Exceeded { per_minute, retry_after }) => {
            let seconds = retry_after.as_secs() + 1;
            let refusal = HttpError::TooManyRequests { class, per_minute, retry_after: seconds };
            let mut response = ApiError::from(refusal).into_response();
            write_headers(response.headers_mut(), class, per_minute, 0, seconds);
            response
        }
    }
}

/// What a request does. What is not known to read or to create counts as a command.
fn class_of(method: &Method, path: &str) -> RateClass {
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| path.ends_with(suffix));
    match *method {
        Method::GET | Method::HEAD => RateClass::Reads,
        Method::POST if ends(&READS) => RateClass::Reads,
        Method::POST if ends(&CREATES) && path.starts_with("/v1/") => RateClass::Creates,
        _ => RateClass::Commands,
    }
}

fn write_headers(headers: &mut HeaderMap, class: RateClass, quota: u32, remaining: u32, seconds: u64) {
    let name = class.as_str();
    let policy = format!("\"{name}\";q={quota};w={WINDOW_SECONDS}");
    let left = format!("\"{name}\";r={remaining};t={seconds}");
    for (header, value) in [(POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(header, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_classed_by_what_they_do() {
        for (method, path, expected) in [
            (Method::GET, "/v1/sandboxes", RateClass::Reads),
            (Method::POST, "/v1/sandboxes", RateClass::Creates),
            (Method::POST, "/v1/sandboxes/{id}:fork", RateClass::Creates),
            (Method::POST, "/v1/sandboxes/{id}/snapshots", RateClass::Creates),
            (Method::POST, "/v1/snapshots:check", RateClass::Reads),
            (Method::POST, "/v1/sandboxes/{id}/files:read", RateClass::Reads),
            (Method::POST, "/v1/sandboxes/{id}/files:write", RateClass::Commands),
            (Method::POST, "/v1/sandboxes/{id}/files:link", RateClass::Creates),
            (Method::POST, "/v1/sandboxes/{id}/commands", RateClass::Commands),
            (Method::POST, "/v1/sandboxes/{id}/mcp", RateClass::Creates),
            (Method::PUT, "/v1/sandboxes/{id}/files", RateClass::Commands),
            (Method::DELETE, "/v1/sandboxes/{id}", RateClass::Commands),
            // The surface: what it does is counted by its own requests.
            (Method::POST, "/mcp", RateClass::Commands),
            (Method::POST, "", RateClass::Commands),
        ] {
            assert_eq!(class_of(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn classes_and_subjects_are_counted_apart_and_addresses_together() {
        let limit = NonZeroU32::new(2);
        let rates = Rates::new(RateSettings { commands: limit, creates: limit, ..RateSettings::default() });
        let subject = |name: &str| {
            let owner = Owner { subject: Some(name.parse().unwrap()), ..Owner::default() };
            Subject::of(&Principal { owner, ..Principal::of_tool_token("any") })
        };
        let address = Some("192.0.2.7".parse().unwrap());
        let take = |class, name: &str| rates.take(class, subject(name), address);
        assert_eq!(take(RateClass::Commands, "ann").unwrap().unwrap().remaining, 1);
        assert_eq!(take(RateClass::Commands, "ann").unwrap().unwrap().remaining, 0);
        assert_eq!(take(RateClass::Commands, "ann").unwrap_err().per_minute, 2);
        assert!(take(RateClass::Creates, "ann").is_ok());
        assert_eq!(take(RateClass::Reads, "ann"), Ok(None));
        let most = 2 * limits::SUBJECTS_PER_ADDRESS as usize;
        let others = (0..100).filter(|number| take(RateClass::Commands, &format!("user{number}")).is_ok());
        assert_eq!(others.count(), most - 2, "the address has sent two that were allowed");
        let of_token = |name: &str| Subject::of(&Principal::of_tool_token(name));
        for token in ["one", "one", "two"] {
            assert!(rates.take(RateClass::Creates, of_token(token), None).is_ok(), "{token}");
        }
        assert!(rates.take(RateClass::Creates, of_token("one"), None).is_err());
    }
}
