//! Denials of a sandbox since a moment, as they happen.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use sandbox_api::SandboxId;
use sandbox_api::network::{Denial, DenialRecord};
use sandbox_client::{Client, Denials, Error};
use tokio::time::{Instant, sleep_until};

/// Pause before a stream that broke is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// Follows a sandbox's denials.
pub(super) struct Follow {
    /// Earlier denials are skipped.
    since: Instant,
    state: State,
}

enum State {
    /// It begins at this time.
    At(Instant),
    Opening(BoxFuture<'static, Result<Denials, Error>>),
    /// Reads the denials before the stream began.
    Recorded(Denials, Vec<Denial>),
    Live(Denials),
    Over,
}

impl Follow {
    /// Follows the denials since a moment, beginning at `at`.
    pub(super) fn new(at: Instant, since: Instant) -> Self {
        Self { since, state: State::At(at) }
    }

    /// Begins again, now.
    pub(super) fn restart(&mut self) {
        self.state = State::At(Instant::now());
    }

    /// Returns nothing any more.
    pub(super) fn stop(&mut self) {
        self.state = State::Over;
    }

    /// Returns the next denials. The first result has all so far, or nothing if they cannot be read. Loses nothing if it
    /// is dropped while it waits.
    pub(super) async fn next(&mut self, client: &Client, sandbox: &SandboxId) -> Vec<Denial> {
        loop {
            if let Some(found) = self.step(client, sandbox).await {
                return found;
            }
        }
    }

    async fn step(&mut self, client: &Client, sandbox: &SandboxId) -> Option<Vec<Denial>> {
        match &mut self.state {
            State::At(at) => {
                sleep_until(*at).await;
                let (client, sandbox) = (client.clone(), sandbox.clone());
                self.state = State::Opening(async move { client.follow_denials(&sandbox).await }.boxed());
                None
            }
            State::Opening(opening) => match opening.await {
                Ok(stream) => {
                    self.state = State::Recorded(stream, Vec::new());
                    None
                }
                // The command is more important than its denials.
                Err(_) => {
                    self.state = State::Over;
                    Some(Vec::new())
                }
            },
            State::Recorded(stream, recorded) => match stream.next().await {
                Some(Ok(DenialRecord::Denied(denial))) => {
                    recorded.push(denial);
                    None
                }
                Some(Ok(DenialRecord::Ready { at })) => {
                    let ago = i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX);
                    // By the daemon's clock. It was read before this moment, so no denial is missed.
                    let since_ms = at.as_millisecond().saturating_sub(ago);
                    let mut found = std::mem::take(recorded);
                    found.retain(|denial| denial.last_at.as_millisecond() >= since_ms);
                    self.go_live();
                    Some(found)
                }
                record => self.skip(record.as_ref()).then(Vec::new),
            },
            State::Live(stream) => match stream.next().await {
                Some(Ok(DenialRecord::Denied(denial))) => Some(vec![denial]),
                Some(Ok(DenialRecord::Dropped { .. })) => {
                    self.restart();
                    None
                }
                record => {
                    self.skip(record.as_ref());
                    None
                }
            },
            State::Over => std::future::pending().await,
        }
    }

    fn go_live(&mut self) {
        if let State::Recorded(stream, _) = std::mem::replace(&mut self.state, State::Over) {
            self.state = State::Live(stream);
        }
    }

    /// Handles a record that is not a denial. Returns whether the stream has ended.
    fn skip(&mut self, record: Option<&Result<DenialRecord, Error>>) -> bool {
        match record {
            Some(Ok(DenialRecord::Gone)) => self.state = State::Over,
            Some(Ok(DenialRecord::Lost) | Err(_)) | None => self.state = State::At(Instant::now() + PAUSE),
            Some(Ok(_)) => return false,
        }
        true
    }
}
