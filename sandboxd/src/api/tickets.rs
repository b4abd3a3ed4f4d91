//! Tickets: a browser cannot add headers to the request that opens a WebSocket, and a token must not be part of a URL, which
//! is logged and remembered. A ticket is for one path, once, and for seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::Request;
use axum::http::Method;
use hop_by_hop::is_upgrade;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::model::{Owner, Principal, Refusal, limits};
use crate::service::{self, random_text};

/// Query parameter with the ticket.
const PARAMETER: &str = "ticket=";

/// Tickets that were issued and not used, by the digest of their text: a comparison must not reveal how much of a guess is
/// right.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<HashMap<[u8; 32], Issued>>);

#[derive(Debug)]
struct Issued {
    principal: Arc<Principal>,
    path: String,
    expires: Instant,
}

impl Tickets {
    /// Issues a ticket. Fails if too many of the owner's, its project's, or of all, are unused.
    pub(super) fn issue(&self, principal: &Arc<Principal>, path: String) -> Result<String, service::Error> {
        let text = random_text::<{ limits::TICKET_BYTES }>()?;
        let now = Instant::now();
        let mut all = self.lock();
        all.retain(|_, issued| issued.expires > now);
        let is_of = |owner: &Owner| *owner == principal.owner;
        let own = all.values().filter(|issued| is_of(&issued.principal.owner)).count();
        let project = &principal.owner.project;
        let of_project = all.values().filter(|issued| issued.principal.owner.project == *project).count();
        for (count, limit, value) in [
            (own, "unused tickets", limits::MAX_OWN_TICKETS),
            (of_project, "unused tickets of a project", limits::MAX_PROJECT_TICKETS),
            (all.len(), "unused tickets of all projects", limits::MAX_TICKETS),
        ] {
            if count >= value {
                return Err(Refusal::LimitReached { limit: limit.into(), value: value as u64 }.into());
            }
        }
        let principal = Arc::clone(principal);
        all.insert(digest(&text), Issued { principal, path, expires: now + limits::TICKET_TTL });
        Ok(text)
    }

    /// Whose ticket a request has, if it opens a connection on the path that the ticket is for. The ticket is used up, also if
    /// the request has another path.
    pub(super) fn redeem(&self, request: &Request) -> Option<Arc<Principal>> {
        if request.method() != Method::GET || !is_upgrade(request.headers()) {
            return None;
        }
        let text = request.uri().query()?.split('&').find_map(|pair| pair.strip_prefix(PARAMETER))?;
        let issued = self.lock().remove(&digest(text))?;
        (issued.expires > Instant::now() && issued.path == request.uri().path()).then_some(issued.principal)
    }

    /// Whether a request has a ticket, right or wrong.
    pub(super) fn is_in(request: &Request) -> bool {
        request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with(PARAMETER)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Issued>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const PATH: &str = "/v1/sandboxes/sbx_1/terminals/term_1/attach";

    fn principal(subject: &str) -> Arc<Principal> {
        let owner = Owner { subject: Some(subject.parse().unwrap()), ..Owner::default() };
        Arc::new(Principal { owner, ..Principal::of_tool_token("any") })
    }

    fn opening(uri: &str) -> Request {
        let request =
            Request::builder().uri(uri).header("connection", "upgrade").header("upgrade", "websocket");
        request.body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_opens_its_path_once_and_soon() {
        let tickets = Tickets::default();
        let issue = || tickets.issue(&principal("ann"), PATH.into()).unwrap();
        let redeem =
            |ticket: &str, path: &str| tickets.redeem(&opening(&format!("{path}?a=b&ticket={ticket}")));
        let ticket = issue();
        assert_eq!(redeem(&ticket, PATH).unwrap().owner, principal("ann").owner);
        assert!(redeem(&ticket, PATH).is_none(), "it is used up");
        let ticket = issue();
        assert!(redeem(&ticket, "/v1/sandboxes/sbx_2/terminals/term_1/attach").is_none());
        assert!(redeem(&ticket, PATH).is_none(), "a wrong path uses it up");
        let ticket = issue();
        let plain = Request::builder().uri(format!("{PATH}?ticket={ticket}")).body(Body::empty()).unwrap();
        assert!(tickets.redeem(&plain).is_none(), "it opens only connections");
        tokio::time::advance(limits::TICKET_TTL).await;
        assert!(redeem(&ticket, PATH).is_none(), "it has expired");
        assert!(redeem("", PATH).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn unused_tickets_are_limited_and_expire() {
        let tickets = Tickets::default();
        let issue = |subject: &str| tickets.issue(&principal(subject), PATH.into());
        for _ in 0..limits::MAX_OWN_TICKETS {
            issue("ann").unwrap();
        }
        issue("ann").unwrap_err();
        issue("bob").unwrap();
        tokio::time::advance(limits::TICKET_TTL).await;
        issue("ann").unwrap();
        assert_eq!(tickets.lock().len(), 1);
    }
}
