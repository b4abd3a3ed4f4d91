//! Writing to a command's standard input: decode, call, encode.

use std::sync::Arc;

use agent_protocol::fault::to_status;
use agent_protocol::v1::{StdinPart, StdinProgress};
use futures::Stream;
use tonic::{Status, Streaming};

use crate::commands::Commands;
use crate::stdin::Writer;

/// Where a call is.
enum Call {
    /// The command is not named yet.
    Unnamed(Arc<Commands>, Streaming<StdinPart>),
    Writing(Writing),
}

struct Writing {
    writer: Writer,
    parts: Streaming<StdinPart>,
    /// The one that is being written.
    part: Option<StdinPart>,
    dealt_with: u64,
}

/// Answers the first part when it is the caller's turn, and then each bit of progress. A caller that goes away takes
/// the stream with it, and so its turn ends.
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
        let writer = Writer::take_turn(command).await.map_err(to_status)?;
        Ok(Some(Self { writer, parts, part: None, dealt_with: 1 }))
    }

    /// Writes something of a part; false where there is none any more.
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
            self.dealt_with += 1;
        }
        Ok(true)
    }

    fn progress(&self) -> StdinProgress {
        StdinProgress { written_bytes: self.writer.written_bytes(), parts: self.dealt_with }
    }
}
