//! A command's stream, line by line.
//!
//! It says what came and how it ended, and nothing of what that means for the command.

use std::io;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::StreamReader;

use super::fault::Fault;
use super::wire::{Command, Line};

/// Longest line that is read.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// A command's stream: one JSON value a line.
pub(super) struct Lines {
    lines: FramedRead<StreamReader<BoxStream<'static, io::Result<Bytes>>, Bytes>, LinesCodec>,
}

/// What a stream says next.
pub(super) enum Said {
    Line(Line),
    /// It ended as streams end.
    Over,
    /// It broke off, or went on in a way that is not to be understood.
    Broken,
}

impl Lines {
    pub(super) fn of(response: reqwest::Response) -> Self {
        let bytes = response.bytes_stream().map_err(io::Error::other).boxed();
        let codec = LinesCodec::new_with_max_length(MAX_LINE_BYTES);
        Self { lines: FramedRead::new(StreamReader::new(bytes), codec) }
    }

    /// The command that the first line tells of.
    pub(super) async fn command(&mut self) -> Result<Command, Fault> {
        let Said::Line(Line { command: Some(command), .. }) = self.next().await else {
            return Err(Fault::NoCommand);
        };
        Ok(command)
    }

    pub(super) async fn next(&mut self) -> Said {
        match self.lines.next().await {
            None => Said::Over,
            Some(Err(error)) => {
                tracing::debug!(%error, "a command's stream broke off");
                Said::Broken
            }
            // One that is cut is no JSON.
            Some(Ok(line)) => serde_json::from_str(&line).map_or(Said::Broken, Said::Line),
        }
    }
}
