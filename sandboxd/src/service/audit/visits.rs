//! Which visitors opened what lately, so that not every request of a page, or of a download in parts, becomes a line.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sandbox_api::{LinkId, SandboxId};

use super::refusals::client_of;
use crate::model::limits;

/// What a visitor opens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Opened {
    /// The preview of a link.
    Preview(LinkId),
    /// A file of a sandbox, by the digest of its path: that may be long.
    File(SandboxId, String),
}

/// When a visitor's last line was written.
#[derive(Debug, Default)]
pub(super) struct Visits(Mutex<HashMap<(Opened, IpAddr), Instant>>);

impl Visits {
    /// Calls `write` if this is the visitor's first request for it for some time. Fails if `write` does, and then
    /// the next request calls it again.
    pub(super) fn first<E>(
        &self,
        opened: Opened,
        visitor: IpAddr,
        write: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let key = (opened, client_of(visitor));
        let mut visits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if visits.get(&key).is_some_and(|at| at.elapsed() < limits::AUDIT_VISIT_EVERY) {
            return Ok(());
        }
        write()?;
        if visits.len() >= limits::MAX_AUDIT_VISITS {
            visits.retain(|_, at| at.elapsed() < limits::AUDIT_VISIT_EVERY);
        }
        if visits.len() >= limits::MAX_AUDIT_VISITS {
            // Their next requests are recorded again.
            visits.clear();
        }
        visits.insert(key, Instant::now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_is_written_once_and_again_after_a_failure() {
        let (visits, link) = (Visits::default(), Opened::Preview(LinkId::random().unwrap()));
        let mut written = Vec::new();
        for (peer, fails) in [(1, true), (1, false), (1, false), (2, false)] {
            let done = visits.first(link.clone(), IpAddr::from([127, 0, 0, peer]), || {
                written.push(peer);
                if fails { Err(()) } else { Ok(()) }
            });
            assert_eq!(done.is_err(), fails);
        }
        assert_eq!(written, [1, 1, 2]);
    }
}
