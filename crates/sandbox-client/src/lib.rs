//! A client for sandboxd's HTTP API.
//!
//! ```no_run
//! use futures::StreamExt;
//! use sandbox_api::command::{Record, StartCommand};
//! use sandbox_api::sandbox::CreateSandbox;
//! use sandbox_client::Client;
//!
//! # async fn example() -> Result<(), sandbox_client::Error> {
//! let client = Client::new("http://127.0.0.1:8080", "the token")?;
//! let wish = CreateSandbox { session_key: "chat:42".into(), ..CreateSandbox::default() };
//! let sandbox = client.create_or_reconnect(&wish).await?.sandbox_id;
//! let script = StartCommand { script: Some("echo hello".into()), ..StartCommand::default() };
//! let mut records = client.run(&sandbox, &script).await?;
//! while let Some(record) = records.next().await {
//!     if let Record::Stdout(output) = record? {
//!         print!("{}", output.data);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every call has a deadline but the streams and [`Client::wait`], which last as long as their command or terminal. One that
//! runs out is [`Error::Deadline`]; what was asked for may have happened all the same.
//! Nothing is tried twice: what is safe to repeat is the caller's to know.

mod command;
mod error;
mod files;
mod lines;
mod sandbox;
mod terminal;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use sandbox_api::TOKEN_HEADER;
use sandbox_api::error::ErrorBody;
use sandbox_api::health::{Health, Ready};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use command::Records;
pub use error::Error;
pub use terminal::{Keyboard, TerminalEvent, TerminalEvents};

/// Deadline of a call that only looks: the daemon gives what it asks for such an answer two seconds, and its
/// store eight.
const LOOK: Duration = Duration::from_secs(12);

/// Deadline of a call that makes, wakes, parks or deletes, or starts or ends a command. The daemon gives the
/// engine and a sandbox's agent up to a minute for that, and two for a disk that it has to mend first.
const ACT: Duration = Duration::from_secs(120);

/// Deadline of a call that carries files: the daemon gives their way to it and their way to the sandbox two
/// minutes each.
const TRANSFER: Duration = Duration::from_secs(300);

/// Of the streams and of [`Client::wait`], which last as long as their command.
const UNLIMITED: Option<Duration> = None;

/// How long the daemon may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an unused connection is kept. The daemon hangs up after 10 s, and a request that crosses with
/// that on the way is lost.
const IDLE: Duration = Duration::from_secs(5);

/// A connection pool to one daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Client {
    /// A client of the daemon at `base`, such as `http://127.0.0.1:8080`. Nothing is sent yet.
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            // The daemon is a neighbour; a proxy for the outside world has no business in between.
            .no_proxy()
            .build()
            .map_err(Error::Setup)?;
        let base = base.into().trim_end_matches('/').to_owned();
        Ok(Self { http, base, token: token.into() })
    }

    /// Whether the daemon's engine answers.
    pub async fn health(&self) -> Result<Health, Error> {
        json(self.request(Method::GET, "/v1/health"), LOOK).await
    }

    /// Whether the daemon can be used; fails with `unavailable` while it is not.
    pub async fn ready(&self) -> Result<Ready, Error> {
        json(self.request(Method::GET, "/v1/ready"), LOOK).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).header(TOKEN_HEADER, &self.token)
    }

    fn post(&self, path: &str, body: &impl Serialize) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }
}

/// Sends a request and reads its JSON answer, all within `limit`.
async fn json<T: DeserializeOwned>(
    request: RequestBuilder,
    limit: impl Into<Option<Duration>>,
) -> Result<T, Error> {
    let limit = limit.into();
    send(request, limit).await?.json().await.map_err(|error| Error::of(error, limit))
}

/// Sends a request; an answer that is no success becomes an error.
async fn send(request: RequestBuilder, limit: Option<Duration>) -> Result<Response, Error> {
    let request = match limit {
        Some(limit) => request.timeout(limit),
        None => request,
    };
    let response = request.send().await.map_err(|error| Error::of(error, limit))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let bytes = response.bytes().await.map_err(|error| Error::of(error, limit))?;
    match serde_json::from_slice::<ErrorBody>(&bytes) {
        Ok(body) => Err(Error::Refused { status: status.as_u16(), body: Box::new(body) }),
        Err(_) => Err(Error::Foreign { status: status.as_u16() }),
    }
}
