//! Reads the lines of a command's stream.
//!
//! Reports lines and how the stream ended, but does not interpret them.

use std::io;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::StreamReader;

use super::fault::Fault;
use super::wire::{Command, Line};

/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Stream of a command: one JSON value per line.
pub(super) struct Lines {
    lines: FramedRead<StreamReader<BoxStream<'static, io::Result<Bytes>>, Bytes>, LinesCodec>,
}

/// Next item of a stream.
pub(super) enum LineResult {
    Line(Line),
    /// The stream ended normally.
    End,
    /// The stream broke off or is invalid.
    Broken,
}

impl Lines {
    pub(super) fn of(response: reqwest::Response) -> Self {
        let bytes = response.bytes_stream().map_err(io::Error::other).boxed();
        let codec = LinesCodec::new_with_max_length(MAX_LINE_BYTES);
        Self { lines: FramedRead::new(StreamReader::new(bytes), codec) }
    }

    /// Returns the command that the first line names.
    pub(super) async fn command(&mut self) -> Result<Command, Fault> {
        let LineResult::Line(Line { command: Some(command), .. }) = self.next().await else {
            return Err(Fault::NoCommand);
        };
        Ok(command)
    }

    pub(super) async fn next(&mut self) -> LineResult {
        match self.lines.next().await {
            None => LineResult::End,
            Some(Err(error)) => {
                tracing::debug!(%error, "a command's stream broke");
                LineResult::Broken
            }
            // A truncated line is not JSON.
            Some(Ok(line)) => serde_json::from_str(&line).map_or(LineResult::Broken, LineResult::Line),
        }
    }
}
