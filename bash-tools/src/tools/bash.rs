//! Runs a command and streams its state.
//!
//! The first value comes when the command has started, the last one when it has ended, and others at the [`pace`](super::pace)
//! of the new output. A slow reader slows the command and gets fewer values.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Result;
use super::output::{self, BashOutput, CANCELLED, Parts, notice};
use super::pace::{self, Pace, Values};
use crate::provider::{End, Error, Event, Running, WORKSPACE};

/// How long the end of a cancelled command is awaited.
const END: Duration = Duration::from_secs(5);

const CANCELLED_NOTICE: &str = "Command was cancelled.";

/// Builds the script for a command of the model. The workspace's own programs come first on PATH, and `python` is
/// available.
pub(super) fn script(command: &str) -> String {
    let bin = format!("{WORKSPACE}/.remcochat/bin");
    // The command has its own lines, because it may begin with a comment or be incomplete.
    format!(
        "export PATH={bin}:$PATH; if ! command -v python >/dev/null && command -v python3 >/dev/null; then \
         mkdir -p {bin} && ln -sf \"$(command -v python3)\" {bin}/python; fi 2>/dev/null\n{command}\n"
    )
}

/// Quotes a text as one shell word.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command in a sandbox that is about to start.
pub(super) type Starting = Pin<Box<dyn Future<Output = Result<Running>> + Send>>;

/// How long a command runs at most.
#[derive(Debug, Clone)]
pub(super) enum Lifetime {
    /// As long as its stream.
    Stream,
    /// Until its own end, or its cancellation.
    Kept {
        /// Whether the provider was asked to start it.
        is_requested: Arc<AtomicBool>,
    },
}

/// Streams a command's values.
pub(super) fn stream(
    starting: Starting,
    lifetime: Lifetime,
    pace: Pace,
    parts: Parts,
    cancel: CancellationToken,
) -> impl Stream<Item = Result<BashOutput>> + Send + 'static {
    let run = Run {
        starting: Some(starting),
        lifetime,
        running: None,
        parts,
        values: Values::new(pace),
        cancel,
        is_done: false,
    };
    futures::stream::unfold(run, |mut run| async move {
        let output = run.next().await?;
        Some((output, run))
    })
}

/// Returns a command's final value.
pub(super) async fn whole(
    starting: Starting,
    timeout: Duration,
    mut parts: Parts,
    cancel: CancellationToken,
) -> Result<BashOutput> {
    let end = tokio::select! {
        end = read_to_end(starting, &mut parts) => end?,
        () = cancel.cancelled() => return Ok(output::whole(parts, CANCELLED, Some(CANCELLED_NOTICE))),
    };
    Ok(output::whole(parts, end.exit_code, notice(end.reason, timeout.as_millis()).as_deref()))
}

async fn read_to_end(starting: Starting, parts: &mut Parts) -> Result<End> {
    let mut running = starting.await?;
    loop {
        match running.next().await.ok_or_else(cut)?? {
            Event::Stdout(bytes) => parts.stdout.push(&bytes),
            Event::Stderr(bytes) => parts.stderr.push(&bytes),
            Event::Missed { bytes } => parts.stdout.push(missed(bytes).as_bytes()),
            Event::Started | Event::Heartbeat => {}
            Event::Ended(end) => return Ok(end),
        }
    }
}

struct Run {
    starting: Option<Starting>,
    lifetime: Lifetime,
    running: Option<Running>,
    parts: Parts,
    values: Values,
    cancel: CancellationToken,
    is_done: bool,
}

/// Why a value is due.
enum Due {
    Started,
    Flush,
    Ended(End),
    Cancelled,
}

impl Run {
    async fn next(&mut self) -> Option<Result<BashOutput>> {
        if self.is_done {
            return None;
        }
        let cancel = self.cancel.clone();
        let due = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Due::Cancelled),
            due = self.due() => due,
        };
        self.is_done = !matches!(due, Ok(Due::Started | Due::Flush));
        match &due {
            Ok(Due::Cancelled) => self.end().await,
            // Dropped at once, which ends a command that still runs.
            _ if self.is_done => (self.starting, self.running) = (None, None),
            _ => {}
        }
        Some(due.map(|due| self.show(due)))
    }

    /// Ends the command, also one that is kept or is just starting. After [`END`], this continues in the background.
    async fn end(&mut self) {
        let (running, starting) = (self.running.take(), self.starting.take());
        let Lifetime::Kept { is_requested } = &self.lifetime else { return };
        // Otherwise it must not start at all.
        let starting = starting.filter(|_| is_requested.load(Ordering::Acquire));
        let end = tokio::spawn(async move {
            let running = match (running, starting) {
                (None, Some(starting)) => starting.await.ok(),
                (running, _) => running,
            };
            if let Some(running) = running {
                running.end().await;
            }
        });
        let _ = timeout(END, end).await;
    }

    fn show(&mut self, due: Due) -> BashOutput {
        self.values.sent(self.parts.chars());
        match due {
            Due::Started | Due::Flush => self.parts.so_far(),
            Due::Cancelled => self.parts.at_end(CANCELLED, Some(CANCELLED_NOTICE)),
            Due::Ended(end) => {
                let notice = notice(end.reason, self.values.pace().timeout.as_millis());
                self.parts.at_end(end.exit_code, notice.as_deref())
            }
        }
    }

    async fn due(&mut self) -> Result<Due> {
        if let Some(starting) = &mut self.starting {
            self.running = Some(starting.await?);
            self.starting = None;
        }
        let Some(running) = &mut self.running else { return Err(cut()) };
        loop {
            let flush_at = self.values.due_at(self.parts.chars());
            let event = tokio::select! {
                biased;
                () = pace::sleep_until(flush_at) => return Ok(Due::Flush),
                event = running.next() => event.ok_or_else(cut)??,
            };
            match event {
                Event::Started => return Ok(Due::Started),
                Event::Stdout(bytes) => self.parts.stdout.push(&bytes),
                Event::Stderr(bytes) => self.parts.stderr.push(&bytes),
                Event::Missed { bytes } => self.parts.stdout.push(missed(bytes).as_bytes()),
                Event::Heartbeat => {}
                Event::Ended(end) => return Ok(Due::Ended(end)),
            }
        }
    }
}

fn missed(bytes: u64) -> String {
    format!("\n[{bytes} bytes of output were not kept]\n")
}

fn cut() -> super::Error {
    Error::Broken("the command's output ended before the command did".into()).into()
}
