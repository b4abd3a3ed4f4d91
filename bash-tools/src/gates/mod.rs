//! Whether a request has tools at all. Every gate must be open: the file, the switch in the environment, the access policy and,
//! where sandboxes are sandboxd's, its health.
//!
//! Each gate is decided by itself and none makes up for another. The first that is closed is told. Only `locality.rs` says who
//! comes from this machine, and it starts from the socket: what a request says of itself can only take that away.
//!
//! A closed gate is no error: the chat goes on without tools, so the layer never refuses a request.
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
//! // Without the peers' addresses nobody would be local.
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Outside axum
//!
//! Nothing but [`access_route`] and the extractor [`Decision`] needs axum. [`BashToolsLayer`] is a tower layer over any
//! service of [`http::Request`], and [`Gates::decide`] takes a request's head by itself. Either way the server must put the peer's
//! address into the request's extensions as [`ConnectInfo`], because the gates begin with the socket; without it a request is
//! from nobody and `localhost` refuses it. With hyper alone:
//!
//! ```
//! use std::net::SocketAddr;
//!
//! use bash_tools::gates::{ConnectInfo, Decision, Gates};
//!
//! /// `peer` is what `accept` told, never something that a header says.
//! async fn decide<B>(gates: &Gates, peer: SocketAddr, request: http::Request<B>) -> (Decision, http::Request<B>) {
//!     let (mut parts, body) = request.into_parts();
//!     parts.extensions.insert(ConnectInfo(peer));
//!     let decision = gates.decide(&parts).await;
//!     (decision, http::Request::from_parts(parts, body))
//! }
//! ```
//!
//! A server of another kind makes the head of what it has: [`http::Request::builder`] with the request's target and all of its
//! headers, `Host`, `Origin`, `Sec-Fetch-Site` and the forwarding ones among them, since each of them can close a gate. An app
//! that knows by itself who may have tools asks no gates and gives [`App`](crate::App) [`Decision::Enabled`].

mod access_route;
mod decision;
mod forwarded;
mod health;
mod layer;
mod locality;
mod token;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::request::Parts;
use ipnet::IpNet;
use listen::throttle::{Allowance, Throttle};

pub use axum::extract::ConnectInfo;

pub use access_route::{AccessReason, AccessReport, access_route};
pub use decision::{Decision, Elsewhere, Reason};
pub use layer::{BashToolsLayer, BashToolsService, ENABLED_HEADER, TOOLS_HEADER};

use self::health::Health;
use self::token::{Token, Verdict};
use crate::config::{Access, BashTools, Environment};

/// How often one address may be wrong about the token.
const WRONG_TOKENS: Allowance = Allowance {
    failures: NonZeroU32::new(10).expect("ten is not zero"),
    period: Duration::from_secs(6),
    max_peers: 1024,
};

/// The gates of one app. Cheap to clone; all clones share what they know of sandboxd's health.
#[derive(Debug, Clone)]
pub struct Gates(Arc<State>);

/// The gates could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client for sandboxd's health could be made.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

#[derive(Debug)]
struct State {
    /// Why nobody has tools, whoever asks.
    closed: Option<Reason>,
    access: Access,
    trusted_proxies: Vec<IpNet>,
    token: Option<Token>,
    health: Option<Health>,
    has_ports: bool,
    failures: Throttle,
}

/// How far one comes without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Soon {
    Decided(Decision),
    /// All gates are open but the last, which must be asked.
    IfHealthy,
}

impl Gates {
    /// Of checked settings and what was read of the environment with them; `None` are tools that are switched off.
    ///
    /// # Errors
    /// The system has no means for a client.
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

    /// Decides about a request. It may take as long as a look at sandboxd's health, which is 800 ms at most and nothing while
    /// the last one is less than 5 s old.
    pub async fn decide(&self, parts: &Parts) -> Decision {
        let asked = Asked { extensions: &parts.extensions, uri: &parts.uri, headers: &parts.headers };
        match self.soon(asked) {
            Soon::Decided(decision) => decision,
            Soon::IfHealthy => self.last().await,
        }
    }

    /// Whether the request passes the access policy alone, which is what a chat app may ask for whatever of its own is as private as
    /// the tools. Where no tools are configured it is decided as for `localhost`.
    pub fn admits(&self, parts: &Parts) -> bool {
        let asked = Asked { extensions: &parts.extensions, uri: &parts.uri, headers: &parts.headers };
        self.admit(asked).is_ok()
    }

    /// Counts a wrong token of the request's peer, where the access policy asks for one.
    ///
    /// # Errors
    /// How long to wait, where there were too many. The right token and none at all are never counted.
    pub fn count_wrong_token(&self, parts: &Parts) -> Result<(), Duration> {
        let asked = Asked { extensions: &parts.extensions, uri: &parts.uri, headers: &parts.headers };
        let is_asked_for = matches!(self.0.access, Access::Lan);
        match token::check(asked.headers, self.0.token.as_ref()) {
            Verdict::Wrong if is_asked_for => self.0.failures.failed(asked.peer_or_unknown()),
            _ => Ok(()),
        }
    }

    fn has_ports(&self) -> bool {
        self.0.has_ports
    }

    fn soon(&self, asked: Asked<'_>) -> Soon {
        if let Some(reason) = self.0.closed {
            return Soon::Decided(Decision::Disabled(reason));
        }
        if let Err(reason) = self.admit(asked) {
            tracing::debug!("a request has no bash tools: {reason}");
            return Soon::Decided(Decision::Disabled(reason));
        }
        match self.0.health.as_ref().map(Health::known) {
            None | Some(Some(true)) => Soon::Decided(Decision::Enabled),
            Some(Some(false)) => Soon::Decided(Decision::Disabled(Reason::Unhealthy)),
            Some(None) => Soon::IfHealthy,
        }
    }

    /// The access policy.
    fn admit(&self, asked: Asked<'_>) -> Result<(), Reason> {
        match self.0.access {
            Access::Localhost => locality::check(asked, &self.0.trusted_proxies).map_err(Reason::NotLocal),
            Access::Lan => match token::check(asked.headers, self.0.token.as_ref()) {
                Verdict::Right => Ok(()),
                Verdict::NoneHere => Err(Reason::MissingServerToken),
                Verdict::NoneGiven => Err(Reason::MissingClientToken),
                Verdict::Wrong => Err(Reason::TokenMismatch),
            },
        }
    }

    async fn last(&self) -> Decision {
        match &self.0.health {
            Some(health) if !health.ask().await => Decision::Disabled(Reason::Unhealthy),
            Some(_) | None => Decision::Enabled,
        }
    }
}

/// What of a request counts.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    extensions: &'a http::Extensions,
    uri: &'a http::Uri,
    headers: &'a http::HeaderMap,
}

impl<'a> Asked<'a> {
    fn of<B>(request: &'a Request<B>) -> Self {
        Self { extensions: request.extensions(), uri: request.uri(), headers: request.headers() }
    }

    /// The other end of the socket, in the form its address has without IPv6's clothes.
    fn peer(self) -> Option<IpAddr> {
        let ConnectInfo(address) = self.extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(address.ip().to_canonical())
    }

    /// The same for counting: whoever is not told of is counted together.
    fn peer_or_unknown(self) -> IpAddr {
        self.peer().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}
