//! The turns that are under way: one at a time for each chat.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bash_tools::session::ChatKey;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::{Error, Result};

/// How long a turn that is ended may take to say so.
const END: Duration = Duration::from_secs(10);

/// Turns at once; each has a task and at most a few connections.
const MAX_TURNS: usize = 64;

/// The turns. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns {
    under_way: Arc<Mutex<HashMap<ChatKey, Entry>>>,
    tasks: TaskTracker,
    /// Cancelled with the app, and what ends each turn with it: also one that has only its last words left, and no place.
    stop: CancellationToken,
}

#[derive(Debug, Clone)]
struct Entry {
    cancel: CancellationToken,
    /// Cancelled with its end.
    ended: CancellationToken,
}

/// A turn's place, as long as it lives.
#[derive(Debug)]
pub(super) struct TurnPlace {
    turns: Turns,
    key: ChatKey,
    entry: Entry,
}

impl Turns {
    /// A place for a turn of a chat that has none under way. One that was ended is waited for, because a person who stops an
    /// answer may send the next message before the command of the last one is dead.
    pub(super) async fn begin(&self, key: &ChatKey) -> Result<TurnPlace> {
        let before = self.under_way().get(key).cloned();
        if let Some(Entry { ended, .. }) = before.filter(|entry| entry.cancel.is_cancelled()) {
            let _ = timeout(END, ended.cancelled()).await;
        }
        self.take(key, MAX_TURNS)
    }

    fn take(&self, key: &ChatKey, places: usize) -> Result<TurnPlace> {
        let mut under_way = self.under_way();
        if under_way.contains_key(key) {
            return Err(Error::Busy {
                what: "this chat is answering already, perhaps on another page".into(),
            });
        }
        if under_way.len() >= places {
            return Err(Error::Full { limit: MAX_TURNS });
        }
        let entry = Entry { cancel: self.stop.child_token(), ended: CancellationToken::new() };
        under_way.insert(key.clone(), entry.clone());
        Ok(TurnPlace { turns: self.clone(), key: key.clone(), entry })
    }

    pub(super) fn is_under_way(&self, key: &ChatKey) -> bool {
        self.under_way().contains_key(key)
    }

    /// Does it beside whoever asked.
    pub(super) fn spawn(&self, turn: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(turn);
    }

    /// Ends a chat's turn, and takes its place, so that no other begins meanwhile.
    pub(super) async fn end(&self, key: &ChatKey) -> Result<TurnPlace> {
        let ends_at = Instant::now() + END;
        loop {
            let entry = self.under_way().get(key).cloned();
            let Some(Entry { cancel, ended }) = entry else {
                // Somebody may have been quicker.
                match self.take(key, usize::MAX) {
                    Ok(place) => return Ok(place),
                    Err(_) => continue,
                }
            };
            cancel.cancel();
            if timeout_at(ends_at, ended.cancelled()).await.is_err() {
                return Err(Error::Busy { what: "this chat is still answering; try again".into() });
            }
        }
    }

    /// Ends them all.
    pub(super) async fn end_all(&self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = timeout(END, self.tasks.wait()).await;
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<ChatKey, Entry>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnPlace {
    /// What ends the turn.
    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.entry.cancel
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        self.turns.under_way().remove(&self.key);
        self.entry.ended.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_ends_a_turn_has_its_place() {
        let turns = Turns::default();
        let key = ChatKey::chat("1").unwrap();
        let place = turns.begin(&key).await.unwrap();
        turns.spawn(async move { place.cancel().clone().cancelled_owned().await });
        let place = turns.end(&key).await.unwrap();
        assert!(matches!(turns.begin(&key).await, Err(Error::Busy { .. })));
        drop(place);
        drop(turns.end(&key).await.unwrap());
        turns.begin(&key).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_turn_waits_for_one_that_was_ended() {
        let turns = Turns::default();
        let key = ChatKey::chat("1").unwrap();
        let place = turns.begin(&key).await.unwrap();
        assert!(matches!(turns.begin(&key).await, Err(Error::Busy { .. })));
        place.cancel().cancel();
        turns.spawn(async move {
            tokio::time::sleep(END / 2).await;
            drop(place);
        });
        let _place = turns.begin(&key).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn last_words_end_with_the_app() {
        let turns = Turns::default();
        let place = turns.begin(&ChatKey::chat("1").unwrap()).await.unwrap();
        let last_words = place.cancel().clone().cancelled_owned();
        drop(place);
        turns.spawn(last_words);
        let began = Instant::now();
        turns.end_all().await;
        assert!(began.elapsed() < END);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_end_is_told_of() {
        let turns = Turns::default();
        let key = ChatKey::chat("1").unwrap();
        let _place = turns.begin(&key).await.unwrap();
        assert!(matches!(turns.end(&key).await, Err(Error::Busy { .. })));
    }
}
