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
    Writing(Writer, Streaming<StdinPart>),
}

/// Answers the first part when it is the caller's turn, and each other when it is written. A caller that goes away
/// takes the stream with it, and so its turn ends.
pub(super) fn progress(
    commands: Arc<Commands>,
    parts: Streaming<StdinPart>,
) -> impl Stream<Item = Result<StdinProgress, Status>> {
    futures::stream::try_unfold(Call::Unnamed(commands, parts), next)
}

async fn next(call: Call) -> Result<Option<(StdinProgress, Call)>, Status> {
    match call {
        Call::Unnamed(commands, mut parts) => {
            let Some(first) = parts.message().await? else {
                return Ok(None);
            };
            let command = commands.get(&first.command_id).map_err(to_status)?;
            let writer = Writer::take_turn(command).await.map_err(to_status)?;
            Ok(Some((StdinProgress { written_bytes: 0 }, Call::Writing(writer, parts))))
        }
        Call::Writing(mut writer, mut parts) => {
            let part = writer.unless_ended(parts.message()).await.map_err(to_status)??;
            let Some(part) = part else {
                return Ok(None);
            };
            let written_bytes = writer.write(part.data).await.map_err(to_status)?;
            if part.close {
                writer.close();
            }
            Ok(Some((StdinProgress { written_bytes }, Call::Writing(writer, parts))))
        }
    }
}
