//! From names to addresses, by the system's resolver.
//!
//! It blocks a thread for each name and cannot be told to stop, so the threads are counted until they are free again,
//! whether or not anybody still waits: those of all, and those of each sandbox, which so never has more than its share.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::Error;
use sandboxd_model::limits;

/// See the module.
#[derive(Debug)]
pub(super) struct Resolver {
    hosts: HashMap<String, Vec<IpAddr>>,
    places: Arc<Semaphore>,
    /// Blocks until it knows.
    pub(super) resolve: fn(&str) -> io::Result<Vec<IpAddr>>,
}

impl Resolver {
    /// One that knows the addresses of some names without asking.
    pub(super) fn new(hosts: HashMap<String, Vec<IpAddr>>) -> Self {
        Self { hosts, places: Arc::new(Semaphore::new(limits::MAX_LOOKUPS)), resolve: by_system }
    }

    /// The addresses of a name, which is no number. One at least. `share` are the places of whoever asks.
    pub(super) async fn look_up(&self, name: &str, share: &Arc<Semaphore>) -> Result<Vec<IpAddr>, Error> {
        if let Some(known) = self.hosts.get(name) {
            return Ok(known.clone());
        }
        let of_share = Arc::clone(share).acquire_owned().await.map_err(not_found)?;
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(not_found)?;
        let (name, resolve) = (name.to_owned(), self.resolve);
        let look_up = spawn_blocking(move || {
            let _places = (of_share, place);
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
