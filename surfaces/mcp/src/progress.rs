//! Progress notifications.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use toolbox::Progress;

/// Minimum time between two notifications.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum time between two notifications. A silent command is reported too, so that the host knows that the call is
/// alive.
const MAX_PAUSE: Duration = Duration::from_secs(9);

/// Sends progress notifications to a client that has requested them.
pub(crate) struct Notifier {
    client: Option<(Peer<RoleServer>, ProgressToken)>,
    began: Instant,
    sent: Mutex<Instant>,
}

impl Notifier {
    pub(crate) fn new(peer: &Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        let client = token.map(|token| (peer.clone(), token));
        Self { client, began: Instant::now(), sent: Mutex::new(Instant::now()) }
    }

    /// Whether a notification is due, for a command with or without new output.
    fn is_due(&self, has_output: bool) -> bool {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = has_output || sent.elapsed() >= MAX_PAUSE;
        if is_due {
            *sent = Instant::now();
        }
        is_due
    }
}

impl Progress for Notifier {
    fn pause(&self) -> Option<Duration> {
        self.client.is_some().then_some(PAUSE)
    }

    fn report<'a>(&'a self, line: &'a str) -> BoxFuture<'a, ()> {
        async move {
            let Some((peer, token)) = self.client.as_ref().filter(|_| self.is_due(!line.is_empty())) else {
                return;
            };
            // Progress must increase. Time does, and hosts show it.
            let seconds = self.began.elapsed().as_secs_f64();
            let mut progress = ProgressNotificationParam::new(token.clone(), seconds);
            if !line.is_empty() {
                progress = progress.with_message(line);
            }
            // A client that has left needs no progress. The call ends in its own way.
            let _ = peer.notify_progress(progress).await;
        }
        .boxed()
    }
}
