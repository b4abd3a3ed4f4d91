//! How an agent comes to be connected: it dials our socket, or we dial it through the engine.
//!
//! What may surprise: until a connection has proven to be the agent's, only threads of its own sandbox touch it. Any process of a
//! sandbox can connect and send descriptors along (SCM_RIGHTS, unix(7)), and whoever reads past them or closes the connection
//! closes them. With SO_LINGER (socket(7)) that takes as long as the process has chosen.

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
use super::{AgentHandle, Keeper, pair};
use sandboxd_model::layout::SOCKET_NAME;
use sandboxd_model::limits;

/// Connections on one socket that may be greeting at once.
const MAX_GREETING: usize = 8;

/// Of a thread that lets an agent in.
const THREAD_STACK_BYTES: usize = 512 * 1024;

const REDIAL_FIRST: Duration = Duration::from_millis(100);
const REDIAL_MAX: Duration = Duration::from_secs(5);

/// The process that may be the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The container is not started yet.
    NotStarted,
    /// This process of the host.
    Pid(i32),
    /// It cannot be told; the secret must do.
    Unidentified,
}

/// Both directions of a connection that was dialled.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// Opens a connection to an agent that cannot dial us.
pub type DialFn = Box<dyn Fn() -> BoxFuture<'static, io::Result<Pin<Box<dyn Duplex>>>> + Send + Sync>;

impl AgentHandle {
    /// Waits for the agent on a socket in `dir`, which the sandbox sees read-only. `peer` says which
    /// process it must be.
    pub fn listen(dir: &Path, secret: String, peer: watch::Receiver<Peer>) -> io::Result<Self> {
        let path = dir.join(SOCKET_NAME);
        // Left by a daemon that was killed. The directory itself must stay: it is what is mounted.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        // The sandbox's user must get through; others are kept out by the run dir above.
        std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        let (handle, keeper) = pair();
        let door = Door { secret, peer, keeper, places: Arc::new(Semaphore::new(MAX_GREETING)) };
        on_a_thread(&Handle::current(), Arc::new(door).accept(listener))?;
        Ok(handle)
    }

    /// Dials the agent whenever there is no connection to it.
    pub fn dial(secret: String, dial: DialFn) -> Self {
        let (handle, keeper) = pair();
        tokio::spawn(redial(secret, dial, keeper));
        handle
    }
}

/// Does it on a thread of its own, whose waits in the kernel are nobody else's.
fn on_a_thread(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let runtime = runtime.clone();
    let thread = std::thread::Builder::new().name("agent's door".into()).stack_size(THREAD_STACK_BYTES);
    thread.spawn(move || runtime.block_on(work)).map(drop)
}

/// For a thread that is no runtime's, and may outlive the runtime and its clock.
#[expect(clippy::disallowed_methods, reason = "nobody else waits on this thread")]
fn wait_here(pause: Duration) {
    std::thread::sleep(pause);
}

/// The socket of one sandbox, and who may come in.
struct Door {
    secret: String,
    peer: watch::Receiver<Peer>,
    keeper: Keeper,
    places: Arc<Semaphore>,
}

impl Door {
    async fn accept(self: Arc<Self>, listener: UnixListener) {
        let runtime = Handle::current();
        loop {
            let accepted = tokio::select! {
                () = self.keeper.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Out of descriptors, most likely: others must give some back first.
                wait_here(REDIAL_FIRST);
                continue;
            };
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { continue };
            // Without room for a thread the agent comes again.
            let _ = on_a_thread(&runtime, Arc::clone(&self).greet(stream, place));
        }
    }

    async fn greet(self: Arc<Self>, stream: UnixStream, place: OwnedSemaphorePermit) {
        match self.open(stream).await {
            Ok((link, driver)) => drop(tokio::spawn(async move { self.keeper.keep(link, driver).await })),
            // Any process of the sandbox can connect, so this is not worth a warning.
            Err(error) => debug!(%error, "dropped a connection on an agent's socket"),
        }
        drop(place);
    }

    async fn open(&self, stream: UnixStream) -> io::Result<(Link, link::Driver)> {
        if check_peer(&stream, self.peer.clone()).await? {
            // With less it is slower and no less right. gVisor's end of a socket stands still with more than the
            // kernel's own buffer, so only a process that this kernel knows gets it.
            let _ = set_socket_send_buffer_size(&stream, SOCKET_BUFFER_BYTES);
        }
        link::open(stream, &self.secret, self.keeper.stop.clone()).await
    }
}

/// Drops whoever is not the container's first process, before a byte of it is read. Whether the kernel has vouched for it:
/// if not, its secret must.
async fn check_peer(stream: &UnixStream, mut peer: watch::Receiver<Peer>) -> io::Result<bool> {
    let known = timeout(limits::GREETING, peer.wait_for(|peer| *peer != Peer::NotStarted));
    let known = *known.await?.map_err(io::Error::other)?;
    // 0 where the process is of a namespace we cannot see.
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

async fn redial(secret: String, dial: DialFn, keeper: Keeper) {
    let mut pause = REDIAL_FIRST;
    loop {
        let attempt = async {
            let stream = dial().await?;
            link::open(stream, &secret, keeper.stop.clone()).await
        };
        let opened = tokio::select! {
            () = keeper.stop.cancelled() => return,
            opened = attempt => opened,
        };
        match opened {
            Ok((link, driver)) => {
                pause = REDIAL_FIRST;
                keeper.keep(link, driver).await;
            }
            Err(error) => debug!(%error, "could not dial an agent"),
        }
        tokio::select! {
            () = keeper.stop.cancelled() => return,
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(REDIAL_MAX);
    }
}

impl Keeper {
    /// Publishes the connection and runs it to its end.
    async fn keep(&self, link: Link, driver: link::Driver) {
        self.link.send_replace(Some(link));
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = driver => {
                // Unless another has taken its place, readers must wait for the next one.
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
