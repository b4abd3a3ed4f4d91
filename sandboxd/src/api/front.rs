//! A trusted front: a program that has authenticated the user of a request.
//!
//! Its key alone is not enough. It must connect from its own address, and not through another proxy, because the daemon
//! cannot know whom that has served. And it names the user in exactly one header: a client that could add a second one
//! would choose who it is.

use std::sync::Arc;

use axum::http::{Extensions, HeaderMap};

use super::server::Peer;
use crate::model::front::FrontSettings;
use crate::model::principal::{Fingerprint, Root};
use crate::model::{Owner, Principal, Scopes, Subject};

/// Name of its users' token, for what surfaces keep apart by token. Their subjects keep them apart.
const FRONT: &str = "front";

/// A trusted front, for requests with its key.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) settings: FrontSettings,
    /// Of its key.
    pub(super) fingerprint: Fingerprint,
}

/// The user of a request with the front's key. `None` if the front does not connect from there, or names no user.
pub(super) fn principal(front: &Front, headers: &HeaderMap, of: &Extensions) -> Option<Arc<Principal>> {
    let peer = of.get::<Peer>()?;
    if !front.settings.is_at(peer.0) {
        return None;
    }
    let subject = subject(headers, front)?;
    Some(Arc::new(Principal {
        owner: Owner { project: front.settings.project.clone(), subject: Some(subject) },
        scopes: Scopes::USE,
        token: FRONT.into(),
        is_operator: false,
        is_for_tools: false,
        root: Root::Front(front.fingerprint),
        expires_at_ms: None,
        issued_at_ms: None,
        sandbox: None,
    }))
}

fn subject(headers: &HeaderMap, front: &Front) -> Option<Subject> {
    let mut named = headers.get_all(&front.settings.header).iter();
    let subject = named.next()?.to_str().ok()?.parse().ok()?;
    named.next().is_none().then_some(subject)
}
