//! Gates: whether a request has tools. Every gate must be open: the file, the switch in the environment, the access
//! policy and, if sandboxd is the provider, its health.
//!
//! Each gate is independent, and none replaces another. The first closed one is reported. Only `locality.rs` decides
//! whether a request is from this machine. It starts from the socket, and the content of a request can only count
//! against it.
//!
//! A closed gate is not an error: the chat continues without tools, so the layer never rejects a request.
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use axum::{Router, routing::post};
//! use bash_tools::config::{self, Environment, process_environment};
//! use bash_tools::gates::{BashToolsLayer, Decision, Gates, access_route};
//!
//! async fn chat(decision: Decision) -> &'static str {
//!     if decision.is_enabled() { "with tools" } else { "without" }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = config::load(process_environment)?.tools;
//! let gates = Gates::new(tools.as_ref(), &Environment::read(tools.as_ref(), process_environment))?;
//! let app = Router::new()
//!     .route("/api/chat", post(chat))
//!     .route("/api/admin/access", access_route(gates.clone()))
//!     .layer(BashToolsLayer::new(gates));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! // Without peer addresses, no client would count as local.
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Outside axum
//!
//! Only [`access_route`] and the extractor [`Decision`] need axum. [`BashToolsLayer`] is a tower layer over any
//! service of [`http::Request`], and [`Gates::decide`] takes the head of a request. In both cases the server must put
//! the peer's address into the request's extensions as [`ConnectInfo`], because the gates start from the socket.
//! Without it, `localhost` rejects the request. With hyper alone:
//!
//! ```
//! use std::net::SocketAddr;
//!
//! use bash_tools::gates::{ConnectInfo, Decision, Gates};
//!
//! /// `peer` is the address that `accept` returned, never the value of a header.
//! async fn decide<B>(gates: &Gates, peer: SocketAddr, request: http::Request<B>) -> (Decision, http::Request<B>) {
//!     let (mut parts, body) = request.into_parts();
//!     parts.extensions.insert(ConnectInfo(peer));
//!     let decision = gates.decide(&parts).await;
//!     (decision, http::Request::from_parts(parts, body))
//! }
//! ```
//!
//! Another kind of server builds the head with [`http::Request::builder`], from the request's target and all of its
//! headers. These include `Host`, `Origin`, `Sec-Fetch-Site` and the forwarding headers, because each can close a
//! gate. An app with its own access control uses no gates and passes [`Decision::Enabled`] to [`App`](crate::App).

mod access_route;
mod decision;
mod forwarded;
mod head;
mod health;
mod layer;
mod locality;
mod token;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use ipnet::IpNet;
use listen::throttle::{Allowance, Throttle};

pub use axum::extract::ConnectInfo;

pub use access_route::{AccessReason, AccessReport, access_route};
pub use decision::{Decision, Elsewhere, Reason};
pub use layer::{BashToolsLayer, BashToolsService, ENABLED_HEADER, TOOLS_HEADER};

use self::head::Head;
use self::health::Health;
use self::token::{Token, Verdict};
use crate::config::{Access, BashTools, Environment};

/// How many wrong tokens an address may send.
const WRONG_TOKENS: Allowance = Allowance {
    failures: NonZeroU32::new(10).expect("10 is not zero"),
    period: Duration::from_secs(6),
    max_peers: 1024,
};

/// Put this into the extensions of a request whose user the app has authenticated itself, before the gates decide. It
/// replaces the token of `access = "lan"`. `localhost` still requires a client on this machine. No client can set an
/// extension.
#[derive(Debug, Clone, Copy)]
pub struct SignedIn;

/// The gates of one app. Cheap to clone. All clones share the result of the health check.
#[derive(Debug, Clone)]
pub struct Gates(Arc<State>);

/// Why the gates could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The HTTP client for sandboxd's health could not be created.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

#[derive(Debug)]
struct State {
    /// Why no request has tools, whatever it contains.
    closed: Option<Reason>,
    access: Access,
    trusted_proxies: Vec<IpNet>,
    token: Option<Token>,
    health: Option<Health>,
    has_ports: bool,
    failures: Throttle,
}

/// Decision that needs no waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Immediate {
    Decided(Decision),
    /// All gates but the health check are open.
    NeedsHealthCheck,
}

impl Gates {
    /// Creates gates from checked settings and the environment read with them. `None` means that the tools are
    /// switched off.
    ///
    /// # Errors
    /// The HTTP client cannot be created.
    pub fn new(tools: Option<&BashTools>, environment: &Environment) -> Result<Self, Error> {
        let closed = match tools {
            None => Some(Reason::NotConfigured),
            Some(_) if !environment.is_switched_on => Some(Reason::SwitchedOff),
            Some(tools) if tools.docker().is_some() && environment.orchestrator_token.is_none() => {
                Some(Reason::MissingOrchestratorToken)
            }
            Some(_) => None,
        };
        let docker = tools.and_then(BashTools::docker);
        let health = docker.map(|docker| Health::new(&docker.orchestrator_url)).transpose();
        Ok(Self(Arc::new(State {
            closed,
            access: tools.map_or(Access::Localhost, |tools| tools.access),
            trusted_proxies: tools.map(|tools| tools.trusted_proxies.clone()).unwrap_or_default(),
            token: environment.strong_admin_token().map(Token::new),
            health: health.map_err(Error::Client)?,
            has_ports: tools.is_some_and(|tools| !tools.sandbox.ports.is_empty()),
            failures: Throttle::new(WRONG_TOKENS),
        })))
    }

    /// Decides about a request. May wait up to 800 ms for a health check of sandboxd. Does not wait if the last check
    /// is less than 5 s old.
    pub async fn decide(&self, parts: &Parts) -> Decision {
        let head = Head { extensions: &parts.extensions, uri: &parts.uri, headers: &parts.headers };
        match self.decide_immediately(head) {
            Immediate::Decided(decision) => decision,
            Immediate::NeedsHealthCheck => self.decide_by_health().await,
        }
    }

    /// Whether the request passes the access policy alone. A chat app can use it for its own private routes. Without
    /// configured tools, the policy is `localhost`.
    pub fn admits(&self, parts: &Parts) -> bool {
        let head = Head { extensions: &parts.extensions, uri: &parts.uri, headers: &parts.headers };
        self.admit(head).is_ok()
    }

    /// Counts a wrong token of the request's peer, if the access policy requires a token.
    ///
    /// # Errors
    /// How long to wait after too many wrong tokens. The right token and a missing one are never counted.
    pub fn count_wrong_token(&self, parts: &Parts) -> Result<(), Duration> {
        let head = Head { extensions: &parts.extensions, uri: &parts.uri, headers: &parts.headers };
        let needs_token = matches!(self.0.access, Access::Lan);
        match token::check(head.headers, self.0.token.as_ref()) {
            Verdict::Wrong if needs_token => self.0.failures.failed(head.peer_or_unknown()),
            _ => Ok(()),
        }
    }

    fn has_ports(&self) -> bool {
        self.0.has_ports
    }

    fn decide_immediately(&self, head: Head<'_>) -> Immediate {
        if let Some(reason) = self.0.closed {
            return Immediate::Decided(Decision::Disabled(reason));
        }
        if let Err(reason) = self.admit(head) {
            tracing::debug!("a request has no bash tools: {reason}");
            return Immediate::Decided(Decision::Disabled(reason));
        }
        match self.0.health.as_ref().map(Health::known) {
            None | Some(Some(true)) => Immediate::Decided(Decision::Enabled),
            Some(Some(false)) => Immediate::Decided(Decision::Disabled(Reason::Unhealthy)),
            Some(None) => Immediate::NeedsHealthCheck,
        }
    }

    /// Checks the access policy.
    fn admit(&self, head: Head<'_>) -> Result<(), Reason> {
        match self.0.access {
            Access::Localhost => locality::check(head, &self.0.trusted_proxies).map_err(Reason::NotLocal),
            Access::Lan if head.extensions.get::<SignedIn>().is_some() => Ok(()),
            Access::Lan => match token::check(head.headers, self.0.token.as_ref()) {
                Verdict::Right => Ok(()),
                Verdict::NoneHere => Err(Reason::MissingServerToken),
                Verdict::NoneGiven => Err(Reason::MissingClientToken),
                Verdict::Wrong => Err(Reason::TokenMismatch),
            },
        }
    }

    async fn decide_by_health(&self) -> Decision {
        match &self.0.health {
            Some(health) if !health.is_healthy().await => Decision::Disabled(Reason::Unhealthy),
            Some(_) | None => Decision::Enabled,
        }
    }
}
