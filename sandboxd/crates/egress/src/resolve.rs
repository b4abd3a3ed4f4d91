//! Resolves names to addresses with the system's resolver.
//!
//! A look-up blocks a thread and cannot be cancelled. So the threads are counted until they are free again, whether
//! or not a caller still waits. There is a limit for all sandboxes and one for each, so that no sandbox has more
//! than its share.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::Error;
use sandboxd_model::limits;

/// The resolver.
#[derive(Debug)]
pub(super) struct Resolver {
    hosts: HashMap<String, Vec<IpAddr>>,
    permits: Arc<Semaphore>,
    /// Blocks until the name is resolved.
    pub(super) resolve: fn(&str) -> io::Result<Vec<IpAddr>>,
}

impl Resolver {
    /// Creates a resolver with fixed addresses for some names.
    pub(super) fn new(hosts: HashMap<String, Vec<IpAddr>>) -> Self {
        Self { hosts, permits: Arc::new(Semaphore::new(limits::MAX_LOOKUPS)), resolve: by_system }
    }

    /// The addresses of a name, at least one. The name must not be a number. `share` limits the concurrent look-ups
    /// of one sandbox.
    pub(super) async fn look_up(&self, name: &str, share: &Arc<Semaphore>) -> Result<Vec<IpAddr>, Error> {
        if let Some(known) = self.hosts.get(name) {
            return Ok(known.clone());
        }
        let of_share = Arc::clone(share).acquire_owned().await.map_err(not_found)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(not_found)?;
        let (name, resolve) = (name.to_owned(), self.resolve);
        let look_up = spawn_blocking(move || {
            let _permits = (of_share, permit);
            resolve(&name)
        });
        let mut found = look_up.await.map_err(not_found)?.map_err(not_found)?;
        found.dedup();
        if found.is_empty() { Err(not_found("it has no address")) } else { Ok(found) }
    }
}

fn by_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

fn not_found(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::NotFound { source: io::Error::other(error) }
}
