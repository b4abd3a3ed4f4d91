//! The sockets that publishers pass their connections on to.
//!
//! Whatever comes through a door goes to the port on the sandbox's loopback, and wakes the sandbox where it was parked. A publisher
//! sees the directory of its door from when it is made; while there is no socket in it, whoever connects to it is turned away.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::published_visits::{Visits, Watched};
use super::{Error, Previews};
use crate::engine::DOOR_NAME;
use crate::model::limits;

/// The doors' place in the run dir.
const DOORS_DIR: &str = "doors";

/// Which port of which sandbox.
pub(super) type Key = (SandboxId, u16);

impl Previews {
    pub(super) fn socket_dir(&self, (id, port): &Key) -> PathBuf {
        self.setup.run_dir.join(DOORS_DIR).join(format!("{id}-{port}"))
    }

    pub(super) fn remove_socket_dir(&self, key: &Key) {
        if let Err(error) = std::fs::remove_dir_all(self.socket_dir(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(sandbox = %key.0, port = key.1, %error, "could not remove a publisher's door");
        }
    }

    /// Makes the directory that a publisher is given, without a socket.
    pub(super) fn make_socket_dir(&self, key: &Key) -> Result<(), Error> {
        let dir = self.socket_dir(key);
        let make = || {
            DirBuilder::new().recursive(true).mode(0o755).create(&dir)?;
            // Whatever the umask: the publisher's user must get in, and nobody else gets past the run dir.
            std::fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
            match std::fs::remove_file(dir.join(DOOR_NAME)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        make().map_err(|source| Error::RunDir { source })
    }

    /// Opens the door; it is closed by the drop of what this returns.
    pub(super) fn open_listener(self: &Arc<Self>, key: &Key) -> Result<DropGuard, Error> {
        self.make_socket_dir(key)?;
        let path = self.socket_dir(key).join(DOOR_NAME);
        let open = || {
            let listener = UnixListener::bind(&path)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
            Ok(listener)
        };
        let listener = open().map_err(|source| Error::RunDir { source })?;
        // Closed with the daemon, too: whoever attends it holds the service.
        let closed = self.tasks.closing().child_token();
        tokio::spawn(attend(Arc::clone(self), key.clone(), listener, closed.clone()));
        Ok(closed.drop_guard())
    }

    /// Carries a connection to the port, for as long as it lasts.
    async fn carry(
        self: &Arc<Self>,
        (id, port): &Key,
        mut visitor: Watched<UnixStream>,
    ) -> Result<(), Error> {
        self.offers(id, *port)?;
        // It is in use for as long as the connection is open, because nothing else tells whether somebody is there.
        let (_, _, _mark) = self.lifecycle.in_use(id).await?.unlock();
        let mut tunnel = self.connect_port(id, *port).await?;
        if let Err(error) = copy_bidirectional(&mut visitor, &mut tunnel).await {
            debug!(sandbox = %id, port, %error, "a connection to a published port broke");
        }
        Ok(())
    }
}

/// Lets connections in until the door is closed.
async fn attend(previews: Arc<Previews>, key: Key, listener: UnixListener, closed: CancellationToken) {
    let visits = Arc::new(Visits::default());
    loop {
        let accepted = tokio::select! {
            () = closed.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((visitor, _)) = accepted else {
            // Out of descriptors, most likely: others must give some back first.
            tokio::time::sleep(limits::KEEPER_TICK).await;
            continue;
        };
        let Some(entered) = visits.enter() else { continue };
        let (previews, key, closed) = (Arc::clone(&previews), key.clone(), closed.clone());
        tokio::spawn(async move {
            tokio::select! {
                carried = previews.carry(&key, entered.watch(visitor)) => {
                    if let Err(error) = carried {
                        debug!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "a published port cannot be reached");
                    }
                }
                () = entered.closed() => {}
                () = closed.cancelled() => {}
            }
        });
    }
}
