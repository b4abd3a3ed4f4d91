//! Streams in which the engine reports the progress of its work.

use futures::{Stream, TryStreamExt};

/// Reads a progress stream to its end. The engine reports some failures only in the stream; bollard turns them into
/// errors.
pub(super) async fn drain<T>(
    progress: impl Stream<Item = Result<T, bollard::errors::Error>>,
) -> Result<(), bollard::errors::Error> {
    progress.try_for_each(|_| async { Ok(()) }).await
}
