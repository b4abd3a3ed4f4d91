//! Identifies the caller of a surface and its conversation.
//!
//! A surface is a server for a protocol other than the daemon's HTTP API. It is a client of the daemon: each of its requests
//! carries the token of the caller that it serves.

mod bodies;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use sandbox_client::Client;
use toolbox::{Memory, Namespace, NamespaceError};

pub use bodies::{Bodies, BodyError, BodyShare, MAX_BODY_BYTES, MAX_VALUES, has_too_many_values};

/// Headers that name the host's conversation. The first one that a request has is used.
const SESSION_HEADERS: [&str; 2] = ["x-sandbox-session", "x-openwebui-chat-id"];

/// Headers that name the host's user.
const USER_HEADERS: [&str; 3] = ["x-sandbox-user", "x-openwebui-user-id", "x-librechat-user-id"];

/// What the servers of all surfaces use together, so that each limit is one for all of them. Cheap to clone.
#[derive(Clone)]
pub struct Shared {
    /// Identifies callers.
    pub callers: Arc<dyn Callers>,
    /// State that calls keep for later calls.
    pub memory: Memory,
    /// Memory for request bodies.
    pub bodies: Bodies,
}

impl Shared {
    /// Creates it with all memory free.
    pub fn new(callers: Arc<dyn Callers>) -> Self {
        Self { callers, memory: Memory::default(), bodies: Bodies::default() }
    }
}

/// Finds out who sent a request.
pub trait Callers: Send + Sync + 'static {
    /// Returns the caller of a request that is already authenticated.
    fn caller(&self, head: &Parts) -> Caller;

    /// Returns the caller of a request without a token in its head, who has sent the token in another way. A wrong
    /// token counts like that of a request.
    fn authenticate(&self, head: &Parts, token: &str) -> Result<Caller, WrongToken>;

    /// Returns a client for a token that was authenticated for an earlier request. The daemon checks the token again with
    /// each request that the client sends.
    fn client(&self, head: &Parts, token: &str) -> Client;

    /// Whether the client has reached the daemon over TLS, as far as a trusted proxy says so.
    fn is_secure(&self, head: &Parts) -> bool;

    /// Returns the address that a request without a token comes from. Addresses that a single client may have are one:
    /// of an IPv6 address, only the first 64 bits are not zero.
    fn source(&self, head: &Parts) -> IpAddr;
}

/// The token is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is wrong")]
pub struct WrongToken {
    /// Set if the client's address has sent too many wrong tokens: when it may send another one.
    pub retry_after: Option<Duration>,
}

/// An authenticated client of the server.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Sends requests with the caller's own token.
    pub client: Client,
    /// The same for work that may outlive the caller's connection.
    pub background: Client,
    /// Name of the token. Its sandboxes are separate from those of others.
    pub token_name: String,
    /// Whether the token is for tools only. It permits no more than the tools do.
    pub is_for_tools: bool,
}

/// The conversation that a call belongs to.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The caller's sandboxes.
    pub namespace: Namespace,
    /// The host's name for it, if the host has sent one.
    pub session: Option<String>,
}

/// A header cannot be used. The message is for the model and the operator.
#[derive(Debug, thiserror::Error)]
#[error("the header `{header}` {source}")]
pub struct BadHeader {
    header: &'static str,
    source: NamespaceError,
}

impl Conversation {
    /// Reads the conversation from the headers of a request whose token has this name.
    pub fn of(token_name: &str, headers: &HeaderMap) -> Result<Self, BadHeader> {
        Self::named_by(token_name, headers, &USER_HEADERS, &SESSION_HEADERS)
    }

    /// The same for a protocol that has headers of its own for user and conversation.
    pub fn named_by(
        token_name: &str,
        headers: &HeaderMap,
        user_headers: &[&'static str],
        session_headers: &[&'static str],
    ) -> Result<Self, BadHeader> {
        let bad = |header| move |source| BadHeader { header, source };
        let namespace = match first(headers, user_headers) {
            Some((header, user)) => Namespace::for_user(token_name, &user).map_err(bad(header))?,
            None => Namespace::new(token_name).map_err(bad("authorization"))?,
        };
        let session = match first(headers, session_headers) {
            Some((header, session)) => {
                Namespace::check(&session).map_err(bad(header))?;
                Some(session)
            }
            None => None,
        };
        Ok(Self { namespace, session })
    }
}

fn first(headers: &HeaderMap, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| {
        let value = headers.get(*name)?;
        Some((*name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn conversation(headers: &[(&'static str, &'static str)]) -> Result<Conversation, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        Conversation::of("admin", &map).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_name_their_conversation() {
        assert_eq!(conversation(&[]).unwrap().session, None);
        for header in SESSION_HEADERS {
            assert_eq!(conversation(&[(header, "42")]).unwrap().session.as_deref(), Some("42"));
        }
    }

    #[test]
    fn each_user_has_a_namespace() {
        let namespace = |headers: &[_]| conversation(headers).unwrap().namespace;
        let ann = namespace(&[("x-openwebui-user-id", "ann")]);
        assert_ne!(ann, namespace(&[("x-openwebui-user-id", "bob")]));
        assert_ne!(ann, namespace(&[]));
    }

    #[test]
    fn a_header_without_a_value_is_rejected() {
        let error = |headers: &[_]| conversation(headers).unwrap_err();
        assert_eq!(error(&[("x-sandbox-session", "")]), "the header `x-sandbox-session` is empty");
        let unfilled = error(&[("x-sandbox-session", "{{LIBRECHAT_BODY_CONVERSATIONID}}")]);
        assert!(unfilled.contains("did not replace"), "{unfilled}");
        assert!(error(&[("x-librechat-user-id", "${USER}")]).contains("x-librechat-user-id"));
    }
}
