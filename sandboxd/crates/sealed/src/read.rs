//! Reads the content of an object into memory.

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{GetResult, Result};

use crate::Damage;

/// Reads everything that was requested. Fails with [`Damage::Length`] if it has more than `max_bytes`, whatever the store has
/// announced.
pub(crate) async fn read_within(found: GetResult, max_bytes: usize) -> Result<Bytes> {
    let announced = usize::try_from(found.range.end.saturating_sub(found.range.start)).unwrap_or(usize::MAX);
    if announced > max_bytes {
        return Err(Damage::Length.into());
    }
    let mut bytes = Vec::with_capacity(announced);
    let mut parts = found.into_stream();
    while let Some(part) = parts.try_next().await? {
        if bytes.len() + part.len() > max_bytes {
            return Err(Damage::Length.into());
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.into())
}
