//! Tells the pages of an owner which of their chats have changed, so that they read them again.
//!
//! A page learns only that there is something new, so a lost line costs a request and no message. The first line of a stream,
//! and one after lines that were lost, stands for every chat.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::Result;
use super::places::{Place, Places};
use crate::account::Owner;

/// Maximum number of pages that listen at once. Each has a connection.
const MAX_PAGES: usize = 128;

/// Maximum number of pages of one user, so that others can have some. An app without accounts has no users.
const MAX_PAGES_OF_USER: usize = 16;

/// Number of changes, of all owners, that wait for a slow page.
const UNREAD: usize = 256;

/// Silence after which an empty line is sent, so that a page that is gone is found.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Tells pages about changes. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Changes {
    sender: broadcast::Sender<Change>,
    places: Places,
    /// Cancelled when the app stops.
    stop: CancellationToken,
}

#[derive(Debug, Clone)]
struct Change {
    owner: Owner,
    chat: Arc<str>,
}

/// A page that listens. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Page {
    changes: Changes,
    owner: Owner,
    _place: Place,
    receiver: broadcast::Receiver<Change>,
    has_begun: bool,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(UNREAD),
            places: Places::new(MAX_PAGES, MAX_PAGES_OF_USER),
            stop: CancellationToken::new(),
        }
    }
}

impl Changes {
    /// Tells the pages of an owner that a chat has changed.
    pub(super) fn tell(&self, owner: &Owner, chat: &str) {
        // It fails if there are no pages.
        let _ = self.sender.send(Change { owner: owner.clone(), chat: chat.into() });
    }

    /// Ends all streams.
    pub(super) fn end(&self) {
        self.stop.cancel();
    }

    /// Begins to tell a page of an owner.
    pub(super) fn open(&self, owner: Owner) -> Result<Page> {
        let place = self.places.take(owner.clone())?;
        let receiver = self.sender.subscribe();
        Ok(Page { changes: self.clone(), owner, _place: place, receiver, has_begun: false })
    }
}

impl Page {
    /// The lines for the page: `{"chat": id}` for each change, `{"chat": null}` for every chat.
    pub(super) fn into_lines(self) -> impl Stream<Item = std::result::Result<String, Infallible>> {
        futures::stream::unfold(self, |mut page| async move {
            let line = page.next().await?;
            Some((Ok(line), page))
        })
    }

    /// The next line, or `None` when the app stops.
    async fn next(&mut self) -> Option<String> {
        let stop = self.changes.stop.clone();
        tokio::select! {
            () = stop.cancelled() => None,
            line = timeout(KEEP_ALIVE, self.line()) => Some(line.unwrap_or_else(|_| "\n".to_owned())),
        }
    }

    async fn line(&mut self) -> String {
        if !std::mem::replace(&mut self.has_begun, true) {
            return line_of(None);
        }
        loop {
            match self.receiver.recv().await {
                Ok(change) if change.owner == self.owner => return line_of(Some(&change.chat)),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return line_of(None),
                // The sender is part of `self`.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

fn line_of(chat: Option<&str>) -> String {
    format!("{}\n", json!({ "chat": chat }))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::account::UserId;

    const ALL: &str = "{\"chat\":null}\n";

    #[tokio::test]
    async fn a_page_hears_of_its_owners_chats_and_when_it_has_missed_some() {
        let changes = Changes::default();
        let [ann, bob] = [UserId::random(), UserId::random()].map(Owner::User);
        let mut page = changes.open(ann.clone()).unwrap();
        assert_eq!(page.next().await.unwrap(), ALL);
        changes.tell(&bob, "his");
        assert_eq!(page.next().now_or_never(), None);
        changes.tell(&ann, "hers");
        assert_eq!(page.next().await.unwrap(), "{\"chat\":\"hers\"}\n");
        for _ in 0..=UNREAD {
            changes.tell(&bob, "his");
        }
        assert_eq!(page.next().await.unwrap(), ALL);
        changes.end();
        assert_eq!(page.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_empty_lines() {
        let changes = Changes::default();
        let mut page = changes.open(Owner::Everyone).unwrap();
        assert_eq!(page.next().await.unwrap(), ALL);
        assert_eq!(page.next().await.unwrap(), "\n");
    }
}
