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
//! let request = CreateSandbox { session_key: "chat:42".into(), ..CreateSandbox::default() };
//! let sandbox = client.create_or_reconnect(&request).await?.sandbox_id;
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
//! // Only if it has not changed since.
//! let unchanged = WriteOptions { if_match: Some(&written.etag), ..WriteOptions::default() };
//! client.put_file(&sandbox, "notes.txt", "1\n2\n3\n", unchanged).await?;
//! let mut film = client.get_file(&sandbox, "film.mp4", None).await?.reader();
//! tokio::io::copy(&mut film, &mut tokio::fs::File::create("copy.mp4").await?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Every call has a deadline, except streams, [`Client::wait`] without a limit, and transfers of files. After
//! [`Error::Deadline`], the request may still have had an effect. A stream lasts as long as its command or terminal.
//! It ends with [`Error::Silent`] if not even a heartbeat arrives. Transfers may be of any size, and the daemon ends
//! one that stalls.
//!
//! Only [`Client::follow`] and [`Client::wait`] retry by themselves. Calls that only read (`health`, `ready`, `get`,
//! `list`, `commands`, `inspect`, `logs`, `read_file`, `stat_file`, `list_files`) are safe to repeat. The
//! documentation of every other call says whether it is.

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

/// Deadline of a call that only reads. The daemon spends up to two seconds on such a response, and its store eight.
const LOOK: Duration = Duration::from_secs(12);

/// Deadline of a call that creates, wakes, parks or deletes, or starts or ends a command. The daemon gives the engine
/// and a sandbox's agent up to a minute, and two minutes for a disk that needs a repair first.
const ACT: Duration = Duration::from_secs(120);

/// Deadline of a call that carries files. The daemon allows two minutes for receiving them and two for passing them
/// to the sandbox.
const TRANSFER: Duration = Duration::from_secs(300);

/// No deadline. Streams have limits of their own.
const UNLIMITED: Option<Duration> = None;

/// Maximum silence of a stream. The daemon sends a heartbeat every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// Deadline for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an unused connection is kept. It is far below the daemon's 120 s, because a request that crosses with the
/// daemon's close is lost.
const IDLE: Duration = Duration::from_secs(5);

/// A client with a connection pool for one daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Client {
    /// Creates a client for the daemon at `base`, such as `http://127.0.0.1:8080`. Sends nothing yet.
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            // The daemon is on a local network, so a proxy for the internet is not used.
            .no_proxy()
            .build()
            .map_err(Error::Setup)?;
        let base = base.into().trim_end_matches('/').to_owned();
        Ok(Self { http, base, token: token.into() })
    }

    /// Checks whether the daemon's engine responds.
    pub async fn health(&self) -> Result<Health, Error> {
        json(self.request(Method::GET, "/v1/health"), LOOK).await
    }

    /// Checks whether the daemon is ready. Fails with `unavailable` while it is not.
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

/// Sends a request and reads its JSON response within `limit`.
async fn json<T: DeserializeOwned>(
    request: RequestBuilder,
    limit: impl Into<Option<Duration>>,
) -> Result<T, Error> {
    let limit = limit.into();
    send(request, limit).await?.json().await.map_err(|error| Error::of(error, limit))
}

/// Sends a request for a stream. It must begin within [`ACT`], and has no deadline after that.
async fn send_for_stream(request: RequestBuilder) -> Result<Response, Error> {
    tokio::time::timeout(ACT, send(request, UNLIMITED)).await.unwrap_or(Err(Error::Silent { after: ACT }))
}

/// Sends a request. A response without a success status becomes an error.
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
