//! Standard input of a running command.
//!
//! A write is never retried. Its error says how many bytes the command received, so that the caller can continue there.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use sandbox_api::{CommandId, SandboxId};

use super::{Commands, Error};
use crate::agent::{self, Cause, Unfinished};
use crate::model::command::StdinState;
use crate::model::{CommandRefusal, Refusal};
use crate::service::Authorized;
use crate::service::StdinError;

impl Commands {
    /// Writes to the standard input of a command, and closes it afterwards if `close` is set. If the caller disconnects,
    /// the bytes sent so far stay written, and standard input stays open.
    pub async fn write_stdin(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        command: &CommandId,
        data: BoxStream<'static, io::Result<Bytes>>,
        close: bool,
    ) -> Result<(), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let _permit = in_use.sandbox().writer()?;
        // This may take long, and a delete must not wait for it.
        let (sandbox, agent, _mark) = in_use.unlock();
        match agent.write_stdin(command, data, close).await {
            Ok(()) => Ok(()),
            Err(unfinished) => {
                let error = error_of(unfinished);
                let is_unknown = matches!(error, Error::Refused(Refusal::NotFound(_)));
                // A command that only the history knows has ended.
                if is_unknown && self.history.recorded(sandbox.ledger(), command).await?.is_some() {
                    return Err(Refusal::from(CommandRefusal::StdinNotOpen {
                        state: StdinState::Ended,
                        written_bytes: 0,
                    })
                    .into());
                }
                Err(error)
            }
        }
    }
}

fn error_of(Unfinished { written_bytes, cause }: Unfinished) -> Error {
    match cause {
        Cause::Agent(agent::Error::Refused(Refusal::Command(CommandRefusal::StdinNotOpen {
            state, ..
        }))) => Refusal::Command(CommandRefusal::StdinNotOpen { state, written_bytes }).into(),
        Cause::Agent(agent::Error::Refused(Refusal::Command(CommandRefusal::StdinStalled {
            waited,
            ..
        }))) => Refusal::Command(CommandRefusal::StdinStalled { waited, written_bytes }).into(),
        Cause::Agent(agent::Error::Refused(refusal)) => refusal.into(),
        Cause::Agent(source) => Error::Stdin(StdinError::Broken { written_bytes, source }),
        Cause::Data(source) if source.kind() == io::ErrorKind::TimedOut => {
            Error::Stdin(StdinError::Late { written_bytes })
        }
        Cause::Data(source) => Error::Stdin(StdinError::Cut { written_bytes, source }),
    }
}
