//! At most one snapshot or restore of each sandbox at a time.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::model::{Refusal, limits};

/// The sandboxes of which a snapshot is made or restored.
#[derive(Debug, Clone, Default)]
pub(super) struct OneAtATime(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    under_way: Mutex<HashMap<SandboxId, Cause>>,
    ended: Notify,
}

/// Why a snapshot is made or restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Request,
    /// It is automatic, so a request waits for it rather than being rejected.
    Checkpoint,
}

/// A snapshot or restore of one sandbox.
#[derive(Debug)]
pub(super) struct Busy {
    all: OneAtATime,
    id: SandboxId,
}

impl OneAtATime {
    /// Begins one. Fails if one of this sandbox is under way. Waits for an automatic one to end.
    pub(super) async fn begin(&self, id: &SandboxId) -> Result<Busy, Refusal> {
        let begun = timeout(limits::SNAPSHOT_TURN, self.begin_after_checkpoint(id, Cause::Request));
        begun.await.ok().and_then(Result::ok).ok_or_else(refused)
    }

    /// Begins an automatic one of a sandbox that is about to be parked. Waits for another automatic one to end, and fails if
    /// there is a request, which may wait for the park.
    pub(super) async fn begin_at_park(&self, id: &SandboxId) -> Result<Busy, Refusal> {
        self.begin_after_checkpoint(id, Cause::Checkpoint).await.map_err(|_| refused())
    }

    /// Begins an automatic one now, or not at all.
    pub(super) fn begin_checkpoint_now(&self, id: &SandboxId) -> Option<Busy> {
        self.try_begin(id, Cause::Checkpoint).ok()
    }

    async fn begin_after_checkpoint(&self, id: &SandboxId, cause: Cause) -> Result<Busy, Cause> {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            // Before the check, so that no end is missed.
            ended.as_mut().enable();
            match self.try_begin(id, cause) {
                Err(Cause::Checkpoint) => ended.await,
                other => return other,
            }
        }
    }

    /// Begins one now, or not at all.
    pub(super) fn begin_now(&self, id: &SandboxId) -> Option<Busy> {
        self.try_begin(id, Cause::Request).ok()
    }

    /// Begins an automatic one as soon as no other one of this sandbox is under way.
    pub(super) async fn begin_checkpoint(&self, id: &SandboxId) -> Busy {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            ended.as_mut().enable();
            match self.try_begin(id, Cause::Checkpoint) {
                Ok(busy) => return busy,
                Err(_) => ended.await,
            }
        }
    }

    fn try_begin(&self, id: &SandboxId, cause: Cause) -> Result<Busy, Cause> {
        let mut under_way = self.lock();
        match under_way.get(id) {
            Some(cause) => Err(*cause),
            None => {
                under_way.insert(id.clone(), cause);
                Ok(Busy { all: self.clone(), id: id.clone() })
            }
        }
    }

    /// A map of ids is valid after a panic elsewhere.
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Cause>> {
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused() -> Refusal {
    Refusal::LimitReached { limit: "snapshots and restores of one sandbox".into(), value: 1 }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
        self.all.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_sandbox_has_one_at_a_time() {
        let all = OneAtATime::default();
        let (one, two) = (SandboxId::random().unwrap(), SandboxId::random().unwrap());
        let busy = all.begin(&one).await.unwrap();
        assert!(all.begin(&one).await.is_err() && all.begin(&two).await.is_ok());
        assert!(all.begin_now(&one).is_none());
        drop(busy);
        assert!(all.begin(&one).await.is_ok());
    }

    #[tokio::test]
    async fn a_request_and_a_checkpoint_wait_for_each_other() {
        let all = OneAtATime::default();
        let id = SandboxId::random().unwrap();
        let checkpoint = all.begin_checkpoint(&id).await;
        let (request, ()) = tokio::join!(all.begin(&id), async { drop(checkpoint) });
        let request = request.unwrap();
        let (checkpoint, ()) = tokio::join!(all.begin_checkpoint(&id), async { drop(request) });
        assert!(all.begin_now(&id).is_none() && all.begin_checkpoint_now(&id).is_none());
        let (at_park, ()) = tokio::join!(all.begin_at_park(&id), async { drop(checkpoint) });
        drop(at_park.unwrap());
        let request = all.begin(&id).await.unwrap();
        assert!(all.begin_at_park(&id).await.is_err(), "it would wait for a request that waits for the park");
        drop(request);
    }
}
