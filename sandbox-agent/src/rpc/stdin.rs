//! Writing to a command's standard input: decode, call, encode.

use std::sync::Arc;

use agent_protocol::fault::to_status;
use agent_protocol::v1::{StdinPart, StdinProgress};
use futures::Stream;
use tonic::{Status, Streaming};

use crate::commands::Commands;
use crate::stdin_writer::Writer;

/// State of a call.
enum Call {
    /// The first part, which names the command, has not arrived yet.
    Unnamed(Arc<Commands>, Streaming<StdinPart>),
    Writing(Writing),
}

struct Writing {
    writer: Writer,
    parts: Streaming<StdinPart>,
    /// The part that is being written.
    part: Option<StdinPart>,
    parts_done: u64,
}

/// Answers the first part when the caller becomes the writer, and then reports progress. If the caller disconnects,
/// the stream is dropped and another writer may follow.
pub(super) fn progress(
    commands: Arc<Commands>,
    parts: Streaming<StdinPart>,
) -> impl Stream<Item = Result<StdinProgress, Status>> {
    futures::stream::try_unfold(Call::Unnamed(commands, parts), |call| async {
        let writing = match call {
            Call::Unnamed(commands, parts) => Writing::begin(&commands, parts).await?,
            Call::Writing(mut writing) => writing.step().await?.then_some(writing),
        };
        Ok(writing.map(|writing| (writing.progress(), Call::Writing(writing))))
    })
}

impl Writing {
    async fn begin(commands: &Commands, mut parts: Streaming<StdinPart>) -> Result<Option<Self>, Status> {
        let Some(first) = parts.message().await? else {
            return Ok(None);
        };
        let command = commands.get(&first.command_id).map_err(to_status)?;
        let writer = Writer::acquire(command).await.map_err(to_status)?;
        Ok(Some(Self { writer, parts, part: None, parts_done: 1 }))
    }

    /// Writes some of the current part. Returns false at the end of the stream.
    async fn step(&mut self) -> Result<bool, Status> {
        if self.part.is_none() {
            self.part = self.writer.unless_ended(self.parts.message()).await.map_err(to_status)??;
        }
        let Some(part) = &mut self.part else {
            return Ok(false);
        };
        self.writer.write(&mut part.data).await.map_err(to_status)?;
        if part.data.is_empty() {
            if part.close {
                self.writer.close();
            }
            self.part = None;
            self.parts_done += 1;
        }
        Ok(true)
    }

    fn progress(&self) -> StdinProgress {
        StdinProgress { written_bytes: self.writer.written_bytes(), parts: self.parts_done }
    }
}
