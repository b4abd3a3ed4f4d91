//! Connections to the agents inside sandboxes.
//!
//! Each agent has one task, which owns its connection. Others hold an [`AgentHandle`], which finds the current
//! connection or reports that there is none. Agents reconnect by themselves, so a handle outlives any connection.
//! Every byte of an agent is hostile: greetings and messages are bounded, and an invalid message is an error of the
//! call that received it.

mod command;
mod context;
mod error;
mod files;
mod link;
mod listener;
mod snapshots;
mod stdin;
mod terminal;
mod tunnels;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use agent_protocol::v1::agent_client::AgentClient;
use agent_protocol::v1::files_client::FilesClient;
use agent_protocol::v1::terminals_client::TerminalsClient;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use command::{AgentInfo, EventStream, KnownCommand, KnownCommands, ReaderId};
pub use context::{Reported, RunEvents};
pub use error::Error;
pub use files::{ByteStream, ChangeStream, UploadError};
pub use listener::{DialFn, Duplex, Peer};
pub use snapshots::{SnapshotPart, SnapshotStream};
pub use stdin::{Cause, StdinData, Unfinished};
pub use terminal::TerminalEvents;
pub use tunnels::{Outgoing, OutgoingConnections, Tunnel};

use self::link::{Link, LinkService};

/// Maximum size of a message from an agent: a batch of records or a piece of a file, with some reserve.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// HTTP/2 requires an authority for each request. There is only one at the other end.
static ORIGIN: LazyLock<http::Uri> = LazyLock::new(|| http::Uri::from_static("http://agent"));

/// The connection to one agent, across reconnects. Dropping the last clone ends the task that owns it.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    link: watch::Receiver<Option<Link>>,
    stop: CancellationToken,
    _task: Arc<DropGuard>,
}

/// The other end of a handle, held by the task that owns the connection.
struct ConnectionOwner {
    link: watch::Sender<Option<Link>>,
    stop: CancellationToken,
}

fn pair() -> (AgentHandle, ConnectionOwner) {
    let (sender, receiver) = watch::channel(None);
    let stop = CancellationToken::new();
    let guard = Arc::new(stop.clone().drop_guard());
    (AgentHandle { link: receiver, stop: stop.clone(), _task: guard }, ConnectionOwner { link: sender, stop })
}

/// A handle whose agent never connects, for tests.
pub fn unconnected() -> AgentHandle {
    pair().0
}

impl AgentHandle {
    /// Closes the connection permanently: every running call fails at once, and so does every later one.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Whether the connection was closed permanently.
    pub fn is_closed(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until the agent is connected.
    pub async fn connected(&self, within: Duration) -> Result<(), Error> {
        self.current(within).await.map(drop)
    }

    /// Whether the agent is connected now.
    pub fn is_connected(&self) -> bool {
        self.link.borrow().as_ref().is_some_and(Link::is_open)
    }

    async fn client(&self, within: Duration) -> Result<AgentClient<LinkService>, Error> {
        self.client_since(0, within).await
    }

    /// Like [`Self::client`], for a request with fields that agents before this generation would ignore.
    async fn client_since(
        &self,
        generation: u32,
        within: Duration,
    ) -> Result<AgentClient<LinkService>, Error> {
        let link = self.since(generation, within).await?;
        Ok(AgentClient::with_origin(link.service, ORIGIN.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .max_encoding_message_size(agent_protocol::MAX_MESSAGE_BYTES))
    }

    async fn files_client(&self, within: Duration) -> Result<FilesClient<LinkService>, Error> {
        self.files_client_since(0, within).await
    }

    async fn files_client_since(
        &self,
        generation: u32,
        within: Duration,
    ) -> Result<FilesClient<LinkService>, Error> {
        let link = self.since(generation, within).await?;
        Ok(FilesClient::with_origin(link.service, ORIGIN.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .max_encoding_message_size(agent_protocol::MAX_MESSAGE_BYTES))
    }

    async fn terminals_client(&self, within: Duration) -> Result<TerminalsClient<LinkService>, Error> {
        self.terminals_client_since(0, within).await
    }

    async fn terminals_client_since(
        &self,
        generation: u32,
        within: Duration,
    ) -> Result<TerminalsClient<LinkService>, Error> {
        let link = self.since(generation, within).await?;
        Ok(TerminalsClient::with_origin(link.service, ORIGIN.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .max_encoding_message_size(agent_protocol::MAX_MESSAGE_BYTES))
    }

    /// Like [`Self::current`]. Fails if the agent is of an earlier generation.
    async fn since(&self, generation: u32, within: Duration) -> Result<Link, Error> {
        let link = self.current(within).await?;
        if link.generation < generation { Err(Error::Outdated) } else { Ok(link) }
    }

    async fn current(&self, within: Duration) -> Result<Link, Error> {
        let began = Instant::now();
        let mut receiver = self.link.clone();
        let open = receiver.wait_for(|link| link.as_ref().is_some_and(Link::is_open));
        let link = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            link = timeout(within, open) => link.ok().and_then(Result::ok).and_then(|link| link.clone()),
        };
        link.ok_or_else(|| Error::NotConnected { waited: began.elapsed() })
    }
}
