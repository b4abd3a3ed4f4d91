//! The running turns: one at a time for each chat, and a few for each user.
//!
//! A turn belongs to the server: pages join and leave it. It ends by itself, when a person stops it, when its chat is deleted,
//! with the session that has begun it, and when no page has watched it for long. If the app stops, its next start continues it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bash_tools::session::ChatKey;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::error::{Error, Result};
use crate::account::Owner;
use crate::turn::{Live, MAX_PAGES, Speaker, Watcher};

/// Time limit for a cancelled turn to end.
const END: Duration = Duration::from_secs(10);

/// Maximum number of turns. Each has a task and at most a few connections.
const MAX_TURNS: usize = 64;

/// Maximum number of turns of one user, so that others can have some. An app without accounts has no users.
const MAX_TURNS_OF_USER: usize = 8;

/// The turns. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns {
    running: Arc<Mutex<HashMap<ChatKey, Entry>>>,
    tasks: TaskTracker,
    /// Cancelled when the app stops. Turns of stored chats continue with the next start of the app. Others end.
    stop: CancellationToken,
}

#[derive(Debug, Clone)]
struct Entry {
    /// Also the id of its answer.
    id: String,
    owner: Owner,
    /// Whether it is a turn, and not what keeps others from beginning.
    is_turn: bool,
    /// Cancelled when the app stops, if the turn continues with its next start.
    suspended: CancellationToken,
    live: Live,
    cancel: CancellationToken,
    /// Cancelled when the turn has ended.
    ended: CancellationToken,
}

/// What a permit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A turn of a stored chat.
    Stored,
    /// A turn of a temporary chat, which ends with the app.
    Temporary,
    /// Keeps turns from beginning.
    Nothing,
}

fn new_id() -> String {
    format!("msg_{}", Uuid::new_v4().simple())
}

/// Permit of a turn. Dropping it ends the turn.
#[derive(Debug)]
pub(super) struct TurnPermit {
    turns: Turns,
    key: ChatKey,
    entry: Entry,
    /// Until the turn begins to speak. So the streams of pages end also if it never does.
    speaker: Option<Speaker>,
}

impl Turns {
    /// Acquires the permit for a turn of a chat without a running one. Waits for a cancelled turn, because a user who
    /// stops an answer may send the next message before the last command has ended.
    pub(super) async fn begin(&self, key: &ChatKey, owner: &Owner, kind: Kind) -> Result<TurnPermit> {
        let before = self.running().get(key).cloned();
        if let Some(Entry { ended, .. }) = before.filter(|entry| entry.cancel.is_cancelled()) {
            let _ = timeout(END, ended.cancelled()).await;
        }
        self.take(key, owner, new_id(), kind)
    }

    /// Acquires the permit for a turn that was begun before the app started.
    pub(super) fn resume(&self, key: &ChatKey, owner: &Owner, id: String) -> Result<TurnPermit> {
        self.take(key, owner, id, Kind::Stored)
    }

    fn take(&self, key: &ChatKey, owner: &Owner, id: String, kind: Kind) -> Result<TurnPermit> {
        let is_turn = kind != Kind::Nothing;
        let mut running = self.running();
        if running.contains_key(key) {
            return Err(Error::Busy {
                what: "this chat is already answering, perhaps on another page".into(),
            });
        }
        let of_user = || running.values().filter(|entry| entry.owner == *owner).count();
        if is_turn && matches!(owner, Owner::User(_)) && of_user() >= MAX_TURNS_OF_USER {
            return Err(Error::FullForUser { limit: MAX_TURNS_OF_USER });
        }
        if is_turn && running.len() >= MAX_TURNS {
            return Err(Error::Full { limit: MAX_TURNS });
        }
        let entry = Entry {
            id,
            owner: owner.clone(),
            is_turn,
            suspended: if kind == Kind::Stored { self.stop.child_token() } else { CancellationToken::new() },
            live: Live::default(),
            cancel: if kind == Kind::Stored { CancellationToken::new() } else { self.stop.child_token() },
            ended: CancellationToken::new(),
        };
        running.insert(key.clone(), entry.clone());
        let speaker = Some(entry.live.speaker());
        Ok(TurnPermit { turns: self.clone(), key: key.clone(), entry, speaker })
    }

    /// The id of the chat's running turn.
    pub(super) fn running_id(&self, key: &ChatKey) -> Option<String> {
        self.running().get(key).filter(|entry| entry.is_turn).map(|entry| entry.id.clone())
    }

    /// Joins the chat's running turn, if there is one.
    pub(super) fn watch(&self, key: &ChatKey) -> Result<Option<Watcher>> {
        let running = self.running();
        let Some(entry) = running.get(key).filter(|entry| entry.is_turn) else { return Ok(None) };
        entry.live.watch().map(Some).ok_or(Error::TooManyPages { limit: MAX_PAGES })
    }

    /// Stops the chat's running turn, if it has this id, or any without one. Does not wait for its end.
    pub(super) fn stop(&self, key: &ChatKey, id: Option<&str>) {
        let running = self.running();
        if let Some(entry) = running.get(key).filter(|entry| id.is_none_or(|id| id == entry.id)) {
            entry.cancel.cancel();
        }
    }

    /// Runs a turn in its own task.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        turn: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(turn)
    }

    /// Ends a chat's turn and acquires its permit, so that no other turn starts meanwhile.
    pub(super) async fn end(&self, key: &ChatKey) -> Result<TurnPermit> {
        let ends_at = Instant::now() + END;
        loop {
            let entry = self.running().get(key).cloned();
            let Some(Entry { cancel, ended, .. }) = entry else {
                // Another request may have been faster. This does not count for its user.
                match self.take(key, &Owner::Everyone, new_id(), Kind::Nothing) {
                    Ok(permit) => return Ok(permit),
                    Err(_) => continue,
                }
            };
            cancel.cancel();
            if timeout_at(ends_at, ended.cancelled()).await.is_err() {
                return Err(Error::Busy { what: "this chat is still answering; try again".into() });
            }
        }
    }

    /// Ends all turns of temporary chats, and leaves the others to the next start of the app.
    pub(super) async fn end_all(&self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = timeout(END, self.tasks.wait()).await;
    }

    fn running(&self) -> MutexGuard<'_, HashMap<ChatKey, Entry>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnPermit {
    /// Returns the id of the turn, which is that of its answer.
    pub(super) fn id(&self) -> &str {
        &self.entry.id
    }

    /// Returns what the turn says.
    pub(super) fn live(&self) -> &Live {
        &self.entry.live
    }

    /// Begins to speak for the turn.
    pub(super) fn speak(&mut self) -> Speaker {
        self.speaker.take().unwrap_or_else(|| self.entry.live.speaker())
    }

    /// Waits until the app stops, if the turn continues with its next start.
    pub(super) fn suspended(&self) -> WaitForCancellationFutureOwned {
        self.entry.suspended.clone().cancelled_owned()
    }

    /// Returns the token that cancels the turn.
    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.entry.cancel
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        self.turns.running().remove(&self.key);
        self.entry.ended.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::UserId;

    #[tokio::test]
    async fn ending_a_turn_acquires_its_permit() {
        let turns = Turns::default();
        let key = ChatKey::chat("1").unwrap();
        let permit = turns.begin(&key, &Owner::Everyone, Kind::Temporary).await.unwrap();
        turns.spawn(async move { permit.cancel().clone().cancelled_owned().await });
        let permit = turns.end(&key).await.unwrap();
        assert!(matches!(
            turns.begin(&key, &Owner::Everyone, Kind::Temporary).await,
            Err(Error::Busy { .. })
        ));
        drop(permit);
        drop(turns.end(&key).await.unwrap());
        turns.begin(&key, &Owner::Everyone, Kind::Temporary).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_turn_waits_for_a_cancelled_one() {
        let turns = Turns::default();
        let key = ChatKey::chat("1").unwrap();
        let permit = turns.begin(&key, &Owner::Everyone, Kind::Temporary).await.unwrap();
        assert!(matches!(
            turns.begin(&key, &Owner::Everyone, Kind::Temporary).await,
            Err(Error::Busy { .. })
        ));
        permit.cancel().cancel();
        turns.spawn(async move {
            tokio::time::sleep(END / 2).await;
            drop(permit);
        });
        let _place = turns.begin(&key, &Owner::Everyone, Kind::Temporary).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_finishing_turn_ends_with_the_app() {
        let turns = Turns::default();
        let permit =
            turns.begin(&ChatKey::chat("1").unwrap(), &Owner::Everyone, Kind::Temporary).await.unwrap();
        let last_words = permit.cancel().clone().cancelled_owned();
        drop(permit);
        turns.spawn(last_words);
        let began = Instant::now();
        turns.end_all().await;
        assert!(began.elapsed() < END);
    }

    #[tokio::test]
    async fn a_turn_of_a_stored_chat_is_suspended_with_the_app() {
        let turns = Turns::default();
        let [stored, temporary] = ["1", "2"].map(|id| ChatKey::chat(id).unwrap());
        let stored = turns.begin(&stored, &Owner::Everyone, Kind::Stored).await.unwrap();
        let temporary = turns.begin(&temporary, &Owner::Everyone, Kind::Temporary).await.unwrap();
        turns.end_all().await;
        stored.suspended().await;
        assert!(!stored.cancel().is_cancelled());
        temporary.cancel().cancelled().await;
        assert!(!temporary.entry.suspended.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_end_is_reported() {
        let turns = Turns::default();
        let key = ChatKey::chat("1").unwrap();
        let _place = turns.begin(&key, &Owner::Everyone, Kind::Temporary).await.unwrap();
        assert!(matches!(turns.end(&key).await, Err(Error::Busy { .. })));
    }

    #[tokio::test]
    async fn one_user_leaves_turns_for_others() {
        let turns = Turns::default();
        let [ann, bob] = [UserId::random(), UserId::random()].map(Owner::User);
        let key = |n: usize| ChatKey::chat(&n.to_string()).unwrap();
        let mut of_ann = Vec::new();
        for n in 0..MAX_TURNS_OF_USER {
            of_ann.push(turns.begin(&key(n), &ann, Kind::Temporary).await.unwrap());
        }
        let refused = turns.begin(&key(100), &ann, Kind::Temporary).await.unwrap_err();
        assert!(matches!(refused, Error::FullForUser { limit: MAX_TURNS_OF_USER }), "{refused}");
        // A chat can be deleted all the same.
        drop(turns.end(&key(100)).await.unwrap());
        let of_bob = turns.begin(&key(101), &bob, Kind::Temporary).await.unwrap();
        of_ann.pop();
        of_ann.push(turns.begin(&key(100), &ann, Kind::Temporary).await.unwrap());
        drop(of_bob);
        // Without accounts, only the limit of all turns applies.
        let everyones = Turns::default();
        let mut permits = Vec::new();
        for n in 0..MAX_TURNS {
            permits.push(everyones.begin(&key(n), &Owner::Everyone, Kind::Temporary).await.unwrap());
        }
        let refused = everyones.begin(&key(MAX_TURNS), &Owner::Everyone, Kind::Temporary).await.unwrap_err();
        assert!(matches!(refused, Error::Full { limit: MAX_TURNS }), "{refused}");
    }
}
