//! From names to addresses, by the system's resolver.
//!
//! It blocks a thread for each name and cannot be told to stop, so the threads are counted until they are free again,
//! whether or not anybody still waits.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::Error;

/// See the module.
#[derive(Debug)]
pub(super) struct Resolver {
    hosts: HashMap<String, Vec<IpAddr>>,
    places: Arc<Semaphore>,
    /// Answers one after the other, instead of the system's.
    #[cfg(test)]
    pub(super) script: std::sync::Mutex<std::collections::VecDeque<Vec<IpAddr>>>,
}

impl Resolver {
    /// One that knows the addresses of some names without asking.
    pub(super) fn new(hosts: HashMap<String, Vec<IpAddr>>) -> Self {
        Self {
            hosts,
            places: super::lookups_of_all(),
            #[cfg(test)]
            script: std::sync::Mutex::default(),
        }
    }

    /// The addresses of a name, which is no number. One at least.
    pub(super) async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        if let Some(known) = self.hosts.get(name) {
            return Ok(known.clone());
        }
        #[cfg(test)]
        if let Some(next) = self.script.lock().unwrap().pop_front() {
            return Ok(next);
        }
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(not_found)?;
        let name = name.to_owned();
        let look_up = spawn_blocking(move || {
            let _place = place;
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok::<Vec<_>, io::Error>(found.map(|address| address.ip()).collect())
        });
        let mut found = look_up.await.map_err(not_found)?.map_err(not_found)?;
        found.dedup();
        if found.is_empty() { Err(not_found("it has no address")) } else { Ok(found) }
    }
}

fn not_found(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::NotFound { source: io::Error::other(error) }
}
