//! Streams of long operations on files.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use crate::agent;
use crate::service::Error;
use crate::service::lifecycle::InUseMark;

/// Keeps a sandbox in use during a long operation, and counts it against the limit of readers.
pub(super) struct LongUse {
    /// Absent if it does not keep the sandbox in use.
    _mark: Option<InUseMark>,
    _permit: OwnedSemaphorePermit,
}

impl LongUse {
    pub(super) fn new(mark: InUseMark, permit: OwnedSemaphorePermit) -> Self {
        Self { _mark: Some(mark), _permit: permit }
    }

    /// Does not keep the sandbox in use.
    pub(super) fn passive(permit: OwnedSemaphorePermit) -> Self {
        Self { _mark: None, _permit: permit }
    }
}

/// The result of a long operation, as it arrives from the agent. Keeps the sandbox in use until it is dropped, unless it
/// is passive.
pub struct FileStream<T> {
    items: BoxStream<'static, Result<T, agent::Error>>,
    _use: LongUse,
}

impl<T> FileStream<T> {
    pub(super) fn new(items: BoxStream<'static, Result<T, agent::Error>>, in_use: LongUse) -> Self {
        Self { items, _use: in_use }
    }
}

impl<T> Stream for FileStream<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(context).map_err(Error::from)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}
