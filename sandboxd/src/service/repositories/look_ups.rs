//! Look-ups that run, and the results of those that ended, which are used for a short time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::request::Wanted;
use crate::model::limits;
use crate::model::repository::Repository;
use crate::service::Error;

/// Results of look-ups, and permits for them.
#[derive(Debug)]
pub(super) struct LookUps {
    found: Mutex<HashMap<Question, (Instant, Repository)>>,
    running: Mutex<HashMap<Question, WeakShared<LookUp>>>,
    permits: Semaphore,
}

/// A look-up, which ends if nothing waits for it any more.
pub(super) type LookUp = BoxFuture<'static, Result<Repository, Arc<Error>>>;

/// A request as one principal may make it. With the token of a host, the answer may be another one.
pub(super) type Question = (String, Wanted, bool);

impl Default for LookUps {
    fn default() -> Self {
        Self {
            found: Mutex::default(),
            running: Mutex::default(),
            permits: Semaphore::new(limits::MAX_LOOK_UPS),
        }
    }
}

impl LookUps {
    /// The look-up that answers a question: one that runs, or else the given one.
    pub(super) fn running(&self, question: &Question, begin: impl FnOnce() -> LookUp) -> Shared<LookUp> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look_up) = running.get(question).and_then(WeakShared::upgrade) {
            return look_up;
        }
        running.retain(|_, look_up| look_up.upgrade().is_some());
        let look_up = begin().shared();
        if let Some(weak) = look_up.downgrade() {
            running.insert(question.clone(), weak);
        }
        look_up
    }

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

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, advance};

    use super::*;
    use crate::model::repository::{RepositoryKey, RepositoryOrigin};

    fn question(name: &str) -> Question {
        (name.to_owned(), Wanted::Default, false)
    }

    fn repository(digit: &str) -> Repository {
        let origin = RepositoryOrigin::parse("https://git.example/a").unwrap();
        let key = RepositoryKey { origin, commit: digit.repeat(40).parse().unwrap(), with_token: false };
        Repository { key, branch: None, tags: Vec::new(), version: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_used_for_a_minute_and_then_looked_up_again() {
        let look_ups = LookUps::default();
        let (branch, old, new) = (question("a"), repository("a"), repository("b"));
        look_ups.remember(branch.clone(), &old);
        advance(limits::LOOK_UP_LIFETIME - Duration::from_millis(1)).await;
        assert_eq!(look_ups.recent(&branch), Some(old));
        assert_eq!(look_ups.recent(&question("b")), None);
        advance(Duration::from_millis(1)).await;
        assert_eq!(look_ups.recent(&branch), None, "the branch may have moved");
        look_ups.remember(branch.clone(), &new);
        assert_eq!(look_ups.recent(&branch), Some(new));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_once_at_a_time() {
        let look_ups = LookUps::default();
        let begin = |digit: &'static str| {
            move || {
                async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok(repository(digit))
                }
                .boxed()
            }
        };
        let first = look_ups.running(&question("a"), begin("a"));
        let second = look_ups.running(&question("a"), begin("b"));
        let other = look_ups.running(&question("b"), begin("c"));
        // The one that began it leaves, and the look-up continues.
        drop(first);
        assert_eq!((second.await.unwrap(), other.await.unwrap()), (repository("a"), repository("c")));
        drop(look_ups.running(&question("a"), begin("d")));
        let last = look_ups.running(&question("a"), begin("e"));
        assert_eq!(last.await.unwrap(), repository("e"), "nothing waited for the one before");
        assert!(look_ups.running.lock().unwrap().len() <= 2);
    }

    #[tokio::test(start_paused = true)]
    async fn old_results_make_room_and_others_are_not_remembered() {
        let look_ups = LookUps::default();
        for n in 0..limits::MAX_LOOK_UPS_KEPT {
            look_ups.remember(question(&n.to_string()), &repository("a"));
        }
        look_ups.remember(question("one more"), &repository("a"));
        assert_eq!(look_ups.recent(&question("one more")), None);
        advance(limits::LOOK_UP_LIFETIME).await;
        look_ups.remember(question("later"), &repository("a"));
        assert!(look_ups.recent(&question("later")).is_some() && look_ups.lock().len() == 1);
    }
}
