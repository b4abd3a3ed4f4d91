//! Sockets to which publishers forward their connections.
//!
//! A connection to a socket is carried to the port on the sandbox's loopback interface, and wakes a parked sandbox. A
//! publisher has the socket's directory from its creation. Connections fail while the directory contains no socket.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use super::carry::carry;
use super::publication::Key;
use super::published_connections::{Connections, Tracked};
use super::{Error, Previews};
use crate::engine::PUBLISHER_SOCKET;
use crate::model::limits;

/// Directory of the sockets in the run dir. Running publishers of earlier versions mount it, so its name must not change.
const SOCKETS_DIR: &str = "doors";

impl Previews {
    pub(super) fn socket_dir(&self, (id, port): &Key) -> PathBuf {
        self.setup.run_dir.join(SOCKETS_DIR).join(format!("{id}-{port}"))
    }

    pub(super) fn remove_socket_dir(&self, key: &Key) {
        if let Err(error) = std::fs::remove_dir_all(self.socket_dir(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(sandbox = %key.0, port = key.1, %error, "could not remove a publisher's socket");
        }
    }

    /// Creates the directory that a publisher mounts, without a socket.
    pub(super) fn create_socket_dir(&self, key: &Key) -> Result<(), Error> {
        let dir = self.socket_dir(key);
        let create = || {
            DirBuilder::new().recursive(true).mode(0o755).create(&dir)?;
            // Independent of the umask: the publisher's user needs access. Other users cannot pass the run dir.
            std::fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
            match std::fs::remove_file(dir.join(PUBLISHER_SOCKET)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        create().map_err(|source| Error::RunDir { source })
    }

    /// Opens the socket. Dropping the guard closes it.
    pub(super) fn open_listener(self: &Arc<Self>, key: &Key) -> Result<DropGuard, Error> {
        self.create_socket_dir(key)?;
        let path = self.socket_dir(key).join(PUBLISHER_SOCKET);
        let open = || {
            let listener = UnixListener::bind(&path)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
            Ok(listener)
        };
        let listener = open().map_err(|source| Error::RunDir { source })?;
        // A shutdown closes it too, because the task holds the service.
        let closed = self.tasks.closing().child_token();
        tokio::spawn(serve_connections(Arc::clone(self), key.clone(), listener, closed.clone()));
        Ok(closed.drop_guard())
    }

    /// Carries a connection to the port until either end closes it.
    async fn carry(self: &Arc<Self>, (id, port): &Key, client: Tracked<UnixStream>) -> Result<(), Error> {
        self.check_offered(id, *port)?;
        // An open connection counts as use, because nothing else shows whether a client is present.
        let (_, _, _mark) = self.lifecycle.in_use(id).await?.unlock();
        let tunnel = self.connect_port(id, *port).await?;
        if let Err(error) = carry(client, tunnel).await {
            debug!(sandbox = %id, port, %error, "a connection to a published port failed");
        }
        Ok(())
    }
}

/// Accepts connections until the socket is closed.
async fn serve_connections(
    previews: Arc<Previews>,
    key: Key,
    listener: UnixListener,
    closed: CancellationToken,
) {
    let connections = Arc::new(Connections::default());
    loop {
        let accepted = tokio::select! {
            () = closed.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            // Most likely the process is out of file descriptors, and others must be closed first.
            tokio::time::sleep(limits::UPKEEP_INTERVAL).await;
            continue;
        };
        let Some(slot) = connections.admit() else { continue };
        let (previews, key, closed) = (Arc::clone(&previews), key.clone(), closed.clone());
        tokio::spawn(async move {
            tokio::select! {
                carried = previews.carry(&key, slot.track(client)) => {
                    if let Err(error) = carried {
                        debug!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "could not connect to a published port");
                    }
                }
                () = slot.closed() => {}
                () = closed.cancelled() => {}
            }
        });
    }
}
