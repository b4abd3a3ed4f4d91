//! How a connection to an agent is established: the agent connects to the daemon's socket, or the daemon connects
//! through the engine.
//!
//! Until a connection has proven to be the agent's, only threads of its own sandbox touch it. Any process of a
//! sandbox can connect and send descriptors along (SCM_RIGHTS, unix(7)). Reading past the descriptors or closing
//! the connection closes them, and with SO_LINGER (socket(7)) this takes as long as the process has chosen.

#[cfg(test)]
mod tests;

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent_protocol::SOCKET_BUFFER_BYTES;
use futures::future::BoxFuture;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::link::{self, Link};
use super::{AgentHandle, ConnectionOwner, pair};
use sandboxd_model::layout::SOCKET_NAME;
use sandboxd_model::limits;

/// Maximum number of connections on one socket that may be in the greeting.
const MAX_GREETING: usize = 8;

/// Stack size of a thread that accepts connections.
const THREAD_STACK_BYTES: usize = 512 * 1024;

const REDIAL_FIRST: Duration = Duration::from_millis(100);
const REDIAL_MAX: Duration = Duration::from_secs(5);

/// The process that may be the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The container is not started yet.
    Pending,
    /// The process with this id on the host.
    Pid(i32),
    /// The process cannot be determined. The secret must suffice.
    Unknown,
}

/// Both directions of a connection that the daemon opened.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// Opens a connection to an agent that cannot connect to the daemon.
pub type DialFn = Box<dyn Fn() -> BoxFuture<'static, io::Result<Pin<Box<dyn Duplex>>>> + Send + Sync>;

impl AgentHandle {
    /// Waits for the agent on a socket in `dir`, which the sandbox sees read-only. `peer` says which process the
    /// agent must be.
    pub fn listen(dir: &Path, secret: String, peer: watch::Receiver<Peer>) -> io::Result<Self> {
        let path = dir.join(SOCKET_NAME);
        // The socket may be left from a daemon that was killed. The directory itself must stay, because it is
        // mounted.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        // The sandbox's user must be able to connect. The run dir above excludes all others.
        std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        let (handle, owner) = pair();
        let listening =
            AgentListener { secret, peer, owner, permits: Arc::new(Semaphore::new(MAX_GREETING)) };
        on_a_thread(&Handle::current(), Arc::new(listening).accept(listener))?;
        Ok(handle)
    }

    /// Connects to the agent whenever there is no connection.
    pub fn dial(secret: String, dial: DialFn) -> Self {
        let (handle, owner) = pair();
        tokio::spawn(redial(secret, dial, owner));
        handle
    }
}

/// Runs `work` on a thread of its own, so that its waits in the kernel delay no other work.
fn on_a_thread(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let runtime = runtime.clone();
    let thread = std::thread::Builder::new().name("agent listener".into()).stack_size(THREAD_STACK_BYTES);
    thread.spawn(move || runtime.block_on(work)).map(drop)
}

/// Sleeps on a thread that belongs to no runtime, and may outlive the runtime and its clock.
#[expect(clippy::disallowed_methods, reason = "no other task runs on this thread")]
fn sleep_on_thread(pause: Duration) {
    std::thread::sleep(pause);
}

/// The socket of one sandbox, and the checks of its connections.
struct AgentListener {
    secret: String,
    peer: watch::Receiver<Peer>,
    owner: ConnectionOwner,
    permits: Arc<Semaphore>,
}

impl AgentListener {
    async fn accept(self: Arc<Self>, listener: UnixListener) {
        let runtime = Handle::current();
        loop {
            let accepted = tokio::select! {
                () = self.owner.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Most likely there are no free descriptors. Others must close some first.
                sleep_on_thread(REDIAL_FIRST);
                continue;
            };
            let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { continue };
            // If no thread can be created, the agent connects again later.
            let _ = on_a_thread(&runtime, Arc::clone(&self).greet(stream, permit));
        }
    }

    async fn greet(self: Arc<Self>, stream: UnixStream, permit: OwnedSemaphorePermit) {
        match self.open(stream).await {
            Ok((link, driver)) => drop(tokio::spawn(async move { self.owner.keep(link, driver).await })),
            // Any process of the sandbox can connect, so this is not worth a warning.
            Err(error) => debug!(%error, "dropped a connection on an agent's socket"),
        }
        drop(permit);
    }

    async fn open(&self, stream: UnixStream) -> io::Result<(Link, link::Driver)> {
        if check_peer(&stream, self.peer.clone()).await? {
            // A smaller buffer is slower, but still correct. gVisor's end of a socket stalls if the buffer is
            // larger than the kernel's default. So only a process that this kernel knows gets a larger one.
            let _ = set_socket_send_buffer_size(&stream, SOCKET_BUFFER_BYTES);
        }
        link::open(stream, &self.secret, self.owner.stop.clone()).await
    }
}

/// Rejects every process except the container's first one, before a byte is read. Returns whether the kernel
/// confirmed the process; if not, its secret must.
async fn check_peer(stream: &UnixStream, mut peer: watch::Receiver<Peer>) -> io::Result<bool> {
    let known = timeout(limits::GREETING, peer.wait_for(|peer| *peer != Peer::Pending));
    let known = *known.await?.map_err(io::Error::other)?;
    // 0 if the process is in a namespace that the daemon cannot see.
    let visible = stream.peer_cred()?.pid().filter(|pid| *pid > 0);
    match (known, visible) {
        (Peer::Pid(wanted), Some(found)) if wanted != found => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("process {found} is not the agent, {wanted} is"),
        )),
        (Peer::Pid(_), Some(_)) => Ok(true),
        _ => Ok(false),
    }
}

async fn redial(secret: String, dial: DialFn, owner: ConnectionOwner) {
    let mut pause = REDIAL_FIRST;
    loop {
        let attempt = async {
            let stream = dial().await?;
            link::open(stream, &secret, owner.stop.clone()).await
        };
        let opened = tokio::select! {
            () = owner.stop.cancelled() => return,
            opened = attempt => opened,
        };
        match opened {
            Ok((link, driver)) => {
                pause = REDIAL_FIRST;
                owner.keep(link, driver).await;
            }
            Err(error) => debug!(%error, "could not dial an agent"),
        }
        tokio::select! {
            () = owner.stop.cancelled() => return,
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(REDIAL_MAX);
    }
}

impl ConnectionOwner {
    /// Publishes the connection and runs it until it ends.
    async fn keep(&self, link: Link, driver: link::Driver) {
        self.link.send_replace(Some(link));
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = driver => {
                // Unless another connection has replaced it, readers must wait for the next one.
                self.link.send_if_modified(|current| {
                    let ours_or_dead = current.as_ref().is_some_and(|link| !link.is_open());
                    if ours_or_dead {
                        *current = None;
                    }
                    ours_or_dead
                });
            }
        }
    }
}
