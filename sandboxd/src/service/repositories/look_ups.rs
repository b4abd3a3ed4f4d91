//! Results of look-ups, which are used for a short time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::request::Wanted;
use crate::model::limits;
use crate::model::repository::Repository;

/// Results of look-ups, and permits for them.
#[derive(Debug)]
pub(super) struct LookUps {
    found: Mutex<HashMap<Question, (Instant, Repository)>>,
    permits: Semaphore,
}

/// A request as one principal may make it. With the token of a host, the answer may be another one.
pub(super) type Question = (String, Wanted, bool);

impl Default for LookUps {
    fn default() -> Self {
        Self { found: Mutex::default(), permits: Semaphore::new(limits::MAX_LOOK_UPS) }
    }
}

impl LookUps {
    /// Waits until another look-up may begin.
    pub(super) async fn permit(&self) -> SemaphorePermit<'_> {
        self.permits.acquire().await.expect("nothing closes it")
    }

    pub(super) fn recent(&self, question: &Question) -> Option<Repository> {
        let found = self.lock();
        let (at, repository) = found.get(question)?;
        (at.elapsed() < limits::LOOK_UP_LIFETIME).then(|| repository.clone())
    }

    pub(super) fn remember(&self, question: Question, repository: &Repository) {
        let mut found = self.lock();
        if found.len() >= limits::MAX_LOOK_UPS_KEPT {
            found.retain(|_, (at, _)| at.elapsed() < limits::LOOK_UP_LIFETIME);
        }
        if found.len() < limits::MAX_LOOK_UPS_KEPT {
            found.insert(question, (Instant::now(), repository.clone()));
        }
    }

    /// Asks the server again at the next request.
    pub(super) fn forget(&self, question: &Question) {
        self.lock().remove(question);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Question, (Instant, Repository)>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
