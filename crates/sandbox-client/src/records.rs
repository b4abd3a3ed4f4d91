//! Streams of JSON lines, up to the record that ends them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::Response;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::deadlines::SILENCE;
use crate::lines::Lines;
use crate::request::broken;
use crate::{Body, Error};

/// Records in order. A stream that breaks off before its last record, or sends nothing for a minute, ends with an error.
/// Waiting for a record may be cancelled: nothing is lost.
pub struct RecordStream<T> {
    body: BoxStream<'static, Result<Bytes, Error>>,
    lines: Lines,
    is_last: fn(&T) -> bool,
    /// Whether it may end without a last record.
    is_open: bool,
    done: bool,
}

impl<T> RecordStream<T> {
    /// The records of a response, up to the one for which `is_last` holds.
    pub(crate) fn new(response: Response<Body>, is_last: fn(&T) -> bool) -> Self {
        let pieces = Box::pin(response.into_body().into_pieces());
        let body = futures::stream::unfold(pieces, |mut pieces| async move {
            let piece = match timeout(SILENCE, pieces.next()).await {
                Ok(piece) => piece?.map_err(broken),
                Err(_) => Err(Error::Silent { after: SILENCE }),
            };
            Some((piece, pieces))
        });
        Self { body: body.boxed(), lines: Lines::default(), is_last, is_open: false, done: false }
    }

    /// The stream may end without a last record.
    pub(crate) fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// A line may have up to `bytes`.
    pub(crate) fn with_lines(self, bytes: usize) -> Self {
        Self { lines: Lines::with_limit(bytes), ..self }
    }

    fn finish(&mut self, last: Option<Error>) -> Poll<Option<Result<T, Error>>> {
        self.done = true;
        Poll::Ready(last.map(Err))
    }
}

impl<T: DeserializeOwned> Stream for RecordStream<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.done {
            match self.lines.next() {
                Err(error) => return self.finish(Some(error)),
                Ok(Some(line)) => match serde_json::from_slice(&line) {
                    Err(error) => return self.finish(Some(Error::BadLine(error))),
                    Ok(record) => {
                        self.done = (self.is_last)(&record);
                        return Poll::Ready(Some(Ok(record)));
                    }
                },
                Ok(None) => match ready!(self.body.as_mut().poll_next(context)) {
                    Some(Ok(bytes)) => self.lines.push(&bytes),
                    Some(Err(error)) => return self.finish(Some(error)),
                    None => {
                        let cut = (!self.is_open).then_some(Error::Cut);
                        return self.finish(cut);
                    }
                },
            }
        }
        Poll::Ready(None)
    }
}

impl<T> std::fmt::Debug for RecordStream<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordStream").field("done", &self.done).finish_non_exhaustive()
    }
}
