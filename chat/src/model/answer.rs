//! Reads an answer event by event, within its limits, to exactly one end.
//!
//! Each provider's [`Reader`] interprets the events. The way in which the connection ends is not trusted. Only the
//! reader knows whether the answer was complete.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::limits::{ANSWER, MAX_ANSWER_BYTES, MAX_EVENT_BYTES};
use super::messages::Redactor;
use super::sse::{Decoder, Event};
use super::{EndReason, Error, Piece, Result};

/// Interprets the events of one provider.
pub(super) trait Reader: Send + 'static {
    /// Processes an event.
    fn read_event(&mut self, event: &Event, pieces: &mut VecDeque<Piece>) -> Result<Progress>;

    /// Processes an answer that is not a stream. Some servers always respond like that.
    fn read_whole(&mut self, answer: Value, pieces: &mut VecDeque<Piece>) -> Result<()>;

    /// Returns the remaining pieces, and why the answer ended. Fails with [`Error::Cut`] if it was incomplete.
    fn close(&mut self, pieces: &mut VecDeque<Piece>) -> Result<EndReason>;
}

/// Whether another event follows an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Last,
}

/// An answer whose head has arrived.
pub(super) struct Answer<R> {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    decoder: Decoder,
    reader: R,
    pieces: VecDeque<Piece>,
    /// Number of bytes that may still arrive.
    left: usize,
    silence: Duration,
    ends_at: Instant,
    redactor: Redactor,
}

impl<R: Reader> Answer<R> {
    pub(super) fn new(response: reqwest::Response, reader: R, silence: Duration, redactor: Redactor) -> Self {
        Self {
            bytes: response.bytes_stream().boxed(),
            decoder: Decoder::default(),
            reader,
            pieces: VecDeque::new(),
            left: MAX_ANSWER_BYTES,
            silence,
            ends_at: Instant::now() + ANSWER,
            redactor,
        }
    }

    /// Reads an answer that is not a stream.
    pub(super) async fn read_whole(&mut self) -> Result<()> {
        let mut body = BytesMut::new();
        while let Some(bytes) = self.chunk().await? {
            if body.len() + bytes.len() > MAX_EVENT_BYTES {
                return Err(Error::TooLong { limit: MAX_EVENT_BYTES });
            }
            body.extend_from_slice(&bytes);
        }
        let answer = serde_json::from_slice(&body).map_err(|error| {
            if error.is_eof() { Error::Cut } else { Error::Garbage { what: error.to_string() } }
        })?;
        self.reader.read_whole(answer, &mut self.pieces)
    }

    /// Streams the answer. The end or an error is the last item, and the connection is closed with it.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<Piece>> + Send + 'static {
        let pieces = stream::unfold(Some(self), async |answer| {
            let mut answer = answer?;
            let piece = answer.next().await.map_err(|error| answer.redactor.of_error(error));
            let is_last = matches!(piece, Ok(Piece::End(_)) | Err(_));
            Some((piece, (!is_last).then_some(answer)))
        });
        pieces.fuse()
    }

    async fn next(&mut self) -> Result<Piece> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(piece);
            }
            let progress = match self.decoder.next()? {
                Some(event) => self.reader.read_event(&event, &mut self.pieces)?,
                None => match self.chunk().await? {
                    Some(bytes) => {
                        self.decoder.push(&bytes);
                        Progress::More
                    }
                    None => Progress::Last,
                },
            };
            if progress == Progress::Last {
                let reason = self.reader.close(&mut self.pieces)?;
                self.pieces.push_back(Piece::End(reason));
            }
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let silent_at = Instant::now() + self.silence;
        let Ok(bytes) = timeout_at(silent_at.min(self.ends_at), self.bytes.next()).await else {
            return Err(match silent_at < self.ends_at {
                true => Error::Silent { after: self.silence },
                false => Error::Slow { after: ANSWER },
            });
        };
        let bytes = match bytes {
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => {
                tracing::debug!(error = %error.without_url(), "a model's answer broke off");
                return Ok(None);
            }
            None => return Ok(None),
        };
        self.left = self.left.checked_sub(bytes.len()).ok_or(Error::TooLong { limit: MAX_ANSWER_BYTES })?;
        Ok(Some(bytes))
    }
}
