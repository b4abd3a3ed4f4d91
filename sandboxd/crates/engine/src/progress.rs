//! The streams in which the engine tells how long work gets on.

use futures::{Stream, TryStreamExt};

/// Reads a progress stream to its end. The engine reports some failures only inside of it, and bollard
/// turns those into errors.
pub(super) async fn drain<T>(
    progress: impl Stream<Item = Result<T, bollard::errors::Error>>,
) -> Result<(), bollard::errors::Error> {
    progress.try_for_each(|_| async { Ok(()) }).await
}
