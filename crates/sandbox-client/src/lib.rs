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
mod body;
mod command;
mod context;
mod deadlines;
mod error;
mod files;
mod follow;
mod lines;
mod mcp;
mod network;
mod orphan;
mod port;
mod project;
mod records;
mod repository;
mod request;
mod sandbox;
mod snapshot;
mod socket;
mod stdin;
mod terminal;
mod transport;
mod tunnel;
mod value;
mod watch;

use std::sync::Arc;

use http::Method;
use sandbox_api::health::{Health, Ready};
use serde::Serialize;

pub use body::{Body, BoxError};
pub use command::Records;
pub use context::RunRecords;
pub use error::Error;
pub use files::{ArchiveFormat, ByteRange, FileContent, WriteOptions, upload, upload_stream};
pub use network::Denials;
pub use records::RecordStream;
pub use snapshot::ImportOptions;
pub use terminal::{Keyboard, TerminalEvent, TerminalEvents};
pub use transport::{Connection, Transport, TransportError};
pub use watch::FileChanges;

use deadlines::LOOK;
use request::{RequestBuilder, json};

/// A client of one daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    token: String,
}

impl Client {
    /// Creates a client for the daemon at `base`, such as `http://127.0.0.1:8080`, with a connection pool. Sends
    /// nothing yet.
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Result<Self, Error> {
        let base = base.into().trim_end_matches('/').to_owned();
        let socket = socket::Socket::new(base).map_err(Error::Setup)?;
        Ok(Self::with_transport(Arc::new(socket), token))
    }

    /// Creates a client whose requests take the given way to the daemon.
    pub fn with_transport(transport: Arc<dyn Transport>, token: impl Into<String>) -> Self {
        Self { transport, token: token.into() }
    }

    /// Returns a client of the same daemon with another token. Both share their connections.
    pub fn with_token(&self, token: impl Into<String>) -> Self {
        Self { transport: Arc::clone(&self.transport), token: token.into() }
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
        RequestBuilder::new(&self.transport, &self.token, method, path)
    }

    fn post(&self, path: &str, body: &impl Serialize) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }
}
