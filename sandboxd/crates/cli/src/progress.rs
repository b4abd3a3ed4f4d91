//! The progress bar, which is drawn only on a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};

use super::text;

const KNOWN_SIZE: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
const UNKNOWN_SIZE: &str = "{msg} {spinner} {bytes} {bytes_per_sec}";
const UNKNOWN_LENGTH: &str = "{msg} {spinner} {elapsed}";

/// Time between two pictures of a spinner.
const SPIN: Duration = Duration::from_millis(120);

/// A bar for this number of bytes, or for an unknown number. It is hidden if standard error is not a terminal.
pub(super) fn progress_bar(is_shown: bool, name: &str, bytes: Option<u64>) -> ProgressBar {
    if !is_shown || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), KNOWN_SIZE),
        None => (ProgressBar::new_spinner(), UNKNOWN_SIZE),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(text::printable(name))
}

/// Shows what is waited for, and for how long, until `work` is done. It is hidden if standard error is not a terminal.
pub(super) async fn waiting<T>(what: &str, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let style = ProgressStyle::with_template(UNKNOWN_LENGTH);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style).with_message(text::printable(what));
    bar.tick();
    bar.enable_steady_tick(SPIN);
    let done = work.await;
    bar.finish_and_clear();
    done
}

/// Passes chunks through, and advances the bar by their length.
pub(super) fn with_progress<E>(
    chunks: impl Stream<Item = Result<Bytes, E>> + Send,
    bar: ProgressBar,
) -> impl Stream<Item = Result<Bytes, E>> + Send {
    chunks.inspect(move |chunk| bar.inc(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64)))
}
