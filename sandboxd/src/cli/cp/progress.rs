//! The bar, where somebody looks.

use std::io::{self, IsTerminal};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};

const KNOWN: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
const UNKNOWN: &str = "{msg} {spinner} {bytes} {bytes_per_sec}";

/// A bar for so many bytes, or for as many as come; none where standard error is no terminal.
pub(super) fn bar(draw: bool, name: &str, bytes: Option<u64>) -> ProgressBar {
    if !draw || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), KNOWN),
        None => (ProgressBar::new_spinner(), UNKNOWN),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(super::super::text::printable(name))
}

/// The same pieces, and the bar moves with them.
pub(super) fn shown<E>(
    pieces: impl Stream<Item = Result<Bytes, E>> + Send,
    bar: ProgressBar,
) -> impl Stream<Item = Result<Bytes, E>> + Send {
    pieces.inspect(move |piece| bar.inc(piece.as_ref().map_or(0, |piece| piece.len() as u64)))
}
