//! Decisions of the gates.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;

/// Whether a request has tools. The [layer](super::BashToolsLayer) puts it into the request's extensions. As an
/// extractor, it is [`Reason::NotDecided`] without the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Every gate is open.
    Enabled,
    /// A gate is closed.
    Disabled(Reason),
}

/// The first gate that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// No gate was checked.
    #[error("the request did not pass the gates' layer")]
    NotDecided,
    /// `app.bash_tools.enabled` is not true.
    #[error("the bash tools are not enabled in the configuration")]
    NotConfigured,
    /// `REMCOCHAT_ENABLE_BASH_TOOL` is not on.
    #[error("the bash tools are disabled in the environment")]
    SwitchedOff,
    /// The app has no token for sandboxd, which requires one.
    #[error(
        "no token for sandboxd: set REMCOCHAT_ADMIN_TOKEN, or the variable that app.bash_tools.docker.admin_token_env names"
    )]
    MissingOrchestratorToken,
    /// Access is `localhost`, and the request is not from this machine.
    #[error("the request is not from this machine: {0}")]
    NotLocal(Elsewhere),
    /// Access is `lan`, and the app has no token of at least 32 characters.
    #[error("the app has no admin token, or its token is too short")]
    MissingServerToken,
    /// Access is `lan`, and the request has no token.
    #[error("the request has no admin token")]
    MissingClientToken,
    /// Access is `lan`, and the request has a wrong token.
    #[error("the request's admin token is not the app's")]
    TokenMismatch,
    /// sandboxd does not report that it is healthy.
    #[error("sandboxd is not healthy")]
    Unhealthy,
}

/// Why a request is not known to be from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Elsewhere {
    /// The server does not report peer addresses. It must be served with
    /// `into_make_service_with_connect_info::<SocketAddr>()`.
    #[error("the server does not provide the client's address")]
    NoPeer,
    /// The peer is on another machine.
    #[error("the connection is from another machine")]
    Peer,
    /// A trusted proxy does not report its client.
    #[error("a trusted proxy does not report the client's address")]
    Unnamed,
    /// A header names a remote client or contains an invalid address.
    #[error("a forwarding header is invalid or names another machine")]
    Forwarded,
    /// The request's host is not `localhost`, `127.0.0.1` or `[::1]`. Another name may be used for DNS rebinding.
    #[error("its host is not localhost")]
    Host,
    /// A page of another origin caused the request: another site, or another port of this machine, such as a
    /// sandbox's server.
    #[error("a page of another origin sent the request")]
    Page,
}

impl Decision {
    /// Whether there are tools.
    pub fn is_enabled(self) -> bool {
        self == Self::Enabled
    }
}

impl<S: Sync> FromRequestParts<S> for Decision {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or(Self::Disabled(Reason::NotDecided)))
    }
}
