//! Which caller a session belongs to.
//!
//! The id that a client has is the session's own, followed by a proof: an HMAC of that id and the name of the caller's
//! token. So the daemon knows the ids that it has issued, also after a restart, and the id of another caller's session
//! is unknown.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, HeaderValue, StatusCode};
use sha2::Sha256;
use surface_caller::Callers;

/// Header with the id of a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Bytes of the proof in an id.
const PROOF_BYTES: usize = 16;

/// Issues and recognizes the ids that clients have.
#[derive(Clone)]
pub(crate) struct Owners {
    key: [u8; 32],
    callers: Arc<dyn Callers>,
}

impl Owners {
    pub(crate) fn new(key: [u8; 32], callers: Arc<dyn Callers>) -> Self {
        Self { key, callers }
    }
}

/// Replaces the id of the request's session by the session's own, and that in the response by the one for the client.
pub(crate) async fn translate(State(owners): State<Owners>, request: Request, next: Next) -> Response {
    let (mut head, body): (_, Body) = request.into_parts();
    let owner = owners.callers.caller(&head).token_name;
    if let Some(given) = head.headers.get(SESSION) {
        let Some(id) = given.to_str().ok().and_then(|given| session_of(&owners.key, &owner, given)) else {
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        };
        head.headers.insert(SESSION, id);
    }
    let mut response = next.run(Request::from_parts(head, body)).await;
    let id = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
    if let Some(id) = id.and_then(|id| HeaderValue::try_from(with_proof(&owners.key, &owner, id)).ok()) {
        response.headers_mut().insert(SESSION, id);
    }
    response
}

fn with_proof(key: &[u8; 32], owner: &str, id: &str) -> String {
    let proof: String = mac(key, owner, id).finalize().into_bytes()[..PROOF_BYTES]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{id}{proof}")
}

fn session_of(key: &[u8; 32], owner: &str, given: &str) -> Option<HeaderValue> {
    let (id, proof) = given.split_at_checked(given.len().checked_sub(2 * PROOF_BYTES)?)?;
    let proof: Option<Vec<u8>> = proof
        .as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
        .collect();
    mac(key, owner, id).verify_truncated_left(&proof?).ok()?;
    HeaderValue::try_from(id).ok()
}

fn mac(key: &[u8; 32], owner: &str, id: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    // An id has no line break, so the two parts cannot be confused.
    for part in [id, "\n", owner] {
        mac.update(part.as_bytes());
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_valid_for_its_owner_and_daemon() {
        let id = with_proof(&[1; 32], "ann", "0123");
        assert_eq!(session_of(&[1; 32], "ann", &id).unwrap(), "0123");
        for (key, owner) in [([2; 32], "ann"), ([1; 32], "bob"), ([1; 32], "")] {
            assert!(session_of(&key, owner, &id).is_none(), "{owner}");
        }
        for forged in ["", "0123", &id[1..], &format!("{id}0"), &"é".repeat(32), &"+1".repeat(16)] {
            assert!(session_of(&[1; 32], "ann", forged).is_none(), "{forged}");
        }
    }
}
