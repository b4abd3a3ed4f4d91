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
//! Files are read and written as bytes, streams or readers:
//!
//! ```no_run
//! use sandbox_client::{Client, WriteOptions, upload};
//!
//! # async fn example(client: Client, sandbox: sandbox_api::SandboxId) -> Result<(), Box<dyn std::error::Error>> {
//! let film = tokio::fs::File::open("film.mp4").await?;
//! client.put_file(&sandbox, "film.mp4", upload(film), WriteOptions::default()).await?;
//! let written = client.put_file(&sandbox, "notes.txt", "1\n2\n", WriteOptions::default()).await?;
//! // Only if nobody has changed it since.
//! let unchanged = WriteOptions { if_match: Some(&written.etag), ..WriteOptions::default() };
//! client.put_file(&sandbox, "notes.txt", "1\n2\n3\n", unchanged).await?;
//! let mut film = client.get_file(&sandbox, "film.mp4", None).await?.reader();
//! tokio::io::copy(&mut film, &mut tokio::fs::File::create("copy.mp4").await?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Every call has a deadline. One that runs out is [`Error::Deadline`]; what was asked for may have happened all the
//! same. A stream lasts as long as its command, and ends with [`Error::Silent`] where not even a heartbeat comes. Files
//! have no deadline, because they may be of any size: the daemon ends a transfer that stands still.
//!
//! Nothing is tried twice but a look: [`Client::follow`] goes on across broken connections, and [`Client::wait`] asks
//! again and again. What only looks (`health`, `ready`, `get`, `list`, `commands`, `inspect`, `logs`,
//! `read_file`, `stat_file`, `list_files`) is
//! safe to repeat; of all other calls their own page says whether they are.
//! Every call has a deadline but the streams and [`Client::wait`], which last as long as their command or terminal. One that
//! runs out is [`Error::Deadline`]; what was asked for may have happened all the same.
//! Nothing is tried twice: what is safe to repeat is the caller's to know.

mod batch;
mod command;
mod error;
mod files;
mod follow;
mod lines;
mod network;
mod orphan;
mod port;
mod sandbox;
mod stdin;
mod terminal;
mod watch;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use sandbox_api::TOKEN_HEADER;
use sandbox_api::error::ErrorBody;
use sandbox_api::health::{Health, Ready};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use command::Records;
pub use error::Error;
pub use files::{ArchiveFormat, ByteRange, FileContent, Upload, WriteOptions, upload, upload_stream};
pub use terminal::{Keyboard, TerminalEvent, TerminalEvents};
pub use watch::FileChanges;

/// Deadline of a call that only looks: the daemon gives what it asks for such an answer two seconds, and its
/// store eight.
const LOOK: Duration = Duration::from_secs(12);

/// Deadline of a call that makes, wakes, parks or deletes, or starts or ends a command. The daemon gives the
/// engine and a sandbox's agent up to a minute for that, and two for a disk that it has to mend first.
const ACT: Duration = Duration::from_secs(120);

/// Deadline of a call that carries files: the daemon gives their way to it and their way to the sandbox two
/// minutes each.
const TRANSFER: Duration = Duration::from_secs(300);

/// Of what lasts as long as its stream, which has bounds of its own.
const UNLIMITED: Option<Duration> = None;

/// How long a stream may be silent: the daemon sends a heartbeat every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

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

/// Sends a request for a stream, which begins within [`ACT`] and lasts as long as it likes.
async fn send_for_stream(request: RequestBuilder) -> Result<Response, Error> {
    tokio::time::timeout(ACT, send(request, UNLIMITED)).await.unwrap_or(Err(Error::Silent { after: ACT }))
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
