//! What a running turn has said so far, for every page that watches it.
//!
//! A page that joins first gets everything so far, in as few chunks as say it, and then each new one. A page that reads slowly
//! gets fewer, larger chunks, and never makes the turn wait. So what is kept is bounded, for the turn and for each page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::Chunk;
use super::chunks::Chunks;

/// Maximum size of what a page gets when it joins, in bytes of text. Of more, long texts and outputs are shortened.
pub const MAX_REPLAY_BYTES: usize = 2 * 1024 * 1024;

/// Maximum number of pages that watch a turn. Each may have as much unread.
pub const MAX_PAGES: usize = 16;

/// Number of chunks that wait for a page as they were said. Further ones are joined with them.
const QUEUE: usize = 32;

/// A running turn. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live {
    state: Arc<Mutex<State>>,
    /// Changes with the state.
    changed: Arc<watch::Sender<()>>,
}

#[derive(Debug, Default)]
struct State {
    so_far: Chunks,
    /// What each page has not read yet.
    pages: HashMap<u64, Chunks>,
    next_page: u64,
    is_over: bool,
}

/// The one who says what a turn has to say. Dropping it ends the streams of all pages, whatever has become of the turn.
#[derive(Debug)]
pub struct Speaker(Live);

impl Speaker {
    /// Says a chunk to every page.
    pub fn say(&self, chunk: Chunk) {
        self.0.say(chunk);
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A page that watches a turn. Dropping it leaves.
#[derive(Debug)]
pub struct Watcher {
    live: Live,
    page: u64,
    changed: watch::Receiver<()>,
}

impl Default for Live {
    fn default() -> Self {
        Self { state: Arc::default(), changed: Arc::new(watch::Sender::new(())) }
    }
}

impl Live {
    /// Begins to speak.
    pub fn speaker(&self) -> Speaker {
        Speaker(self.clone())
    }

    fn say(&self, chunk: Chunk) {
        let mut state = self.state();
        for unread in state.pages.values_mut() {
            match unread.len() < QUEUE {
                true => unread.push(chunk.clone()),
                false => unread.add(chunk.clone()),
            }
            unread.shorten(MAX_REPLAY_BYTES);
        }
        state.so_far.add(chunk);
        state.so_far.shorten(MAX_REPLAY_BYTES);
        self.note(state);
    }

    /// Ends the streams of all pages, after what they have not read.
    pub fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        self.note(state);
    }

    /// Joins the turn. `None` if [`MAX_PAGES`] watch it.
    pub fn watch(&self) -> Option<Watcher> {
        let changed = self.changed.subscribe();
        let mut state = self.state();
        if state.pages.len() >= MAX_PAGES {
            return None;
        }
        let page = state.next_page;
        state.next_page += 1;
        let unread = state.so_far.clone();
        state.pages.insert(page, unread);
        self.note(state);
        Some(Watcher { live: self.clone(), page, changed })
    }

    /// Waits until no page has watched for so long.
    pub async fn unwatched_for(&self, limit: Duration) {
        loop {
            self.until(|state| state.pages.is_empty()).await;
            if timeout(limit, self.until(|state| !state.pages.is_empty())).await.is_err() {
                return;
            }
        }
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !is_so(&self.state()) {
            // The sender is part of `self`.
            let _ = changed.changed().await;
        }
    }

    fn note(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.changed.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    /// The next chunk. `None` after the end of the turn.
    pub async fn next(&mut self) -> Option<Chunk> {
        loop {
            self.changed.mark_unchanged();
            {
                let mut state = self.live.state();
                let unread = state.pages.get_mut(&self.page).and_then(Chunks::take);
                if unread.is_some() || state.is_over {
                    return unread;
                }
            }
            let _ = self.changed.changed().await;
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut state = self.live.state();
        state.pages.remove(&self.page);
        self.live.note(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(text: &str) -> Chunk {
        Chunk::TextDelta { id: "t1".into(), delta: text.into() }
    }

    #[tokio::test]
    async fn pages_get_what_was_said_before_and_after_they_joined() {
        let live = Live::default();
        live.say(Chunk::TextStart { id: "t1".into() });
        live.say(delta("he"));
        let mut first = live.watch().unwrap();
        live.say(delta("llo"));
        assert_eq!(first.next().await, Some(Chunk::TextStart { id: "t1".into() }));
        assert_eq!(first.next().await, Some(delta("he")));
        assert_eq!(first.next().await, Some(delta("llo")));
        let mut second = live.watch().unwrap();
        live.say(delta(" you"));
        live.end();
        assert_eq!(first.next().await, Some(delta(" you")));
        assert_eq!(first.next().await, None);
        assert_eq!(second.next().await, Some(Chunk::TextStart { id: "t1".into() }));
        assert_eq!(second.next().await, Some(delta("hello")));
        assert_eq!(second.next().await, Some(delta(" you")));
        assert_eq!(second.next().await, None);
        // Also a page that joins when the turn is over.
        assert!(live.watch().unwrap().next().await.is_some());
    }

    #[tokio::test]
    async fn streams_end_with_their_speaker_and_pages_are_few() {
        let live = Live::default();
        let speaker = live.speaker();
        let mut pages: Vec<_> = (0..MAX_PAGES).map(|_| live.watch().unwrap()).collect();
        assert!(live.watch().is_none());
        speaker.say(delta("x"));
        drop(speaker);
        let mut last = pages.pop().unwrap();
        assert_eq!(last.next().await, Some(delta("x")));
        assert_eq!(last.next().await, None);
        drop(last);
        assert!(live.watch().is_some());
    }

    #[tokio::test]
    async fn a_page_that_reads_nothing_gets_few_chunks() {
        let live = Live::default();
        let mut page = live.watch().unwrap();
        for _ in 0..1000 {
            live.say(delta("x"));
        }
        live.end();
        let (mut count, mut text) = (0, String::new());
        while let Some(Chunk::TextDelta { delta, .. }) = page.next().await {
            count += 1;
            text.push_str(&delta);
        }
        assert_eq!((count, text.len()), (QUEUE, 1000));
    }

    #[tokio::test]
    async fn a_waiting_page_gets_the_next_chunk() {
        let live = Live::default();
        let mut page = live.watch().unwrap();
        let (got, ()) = tokio::join!(page.next(), async {
            tokio::task::yield_now().await;
            live.say(delta("x"));
        });
        assert_eq!(got, Some(delta("x")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_unwatched_when_its_last_page_has_left_for_long() {
        let (live, limit) = (Live::default(), Duration::from_secs(60));
        let (one, two) = (live.watch().unwrap(), live.watch().unwrap());
        let leaving = async {
            drop(one);
            tokio::time::sleep(2 * limit).await;
            drop(two);
            tokio::time::sleep(limit / 2).await;
            let again = live.watch().unwrap();
            tokio::time::sleep(limit).await;
            drop(again);
            tokio::time::Instant::now()
        };
        let ended = async {
            live.unwatched_for(limit).await;
            tokio::time::Instant::now()
        };
        let (left, ended) = tokio::join!(leaving, ended);
        assert_eq!(ended - left, limit);
    }
}
