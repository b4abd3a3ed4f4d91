//! Standard input: calls to the agent.
//!
//! The agent reports how many bytes the command's pipe has accepted. All calls to a sandbox share the flow control
//! window of one connection. Only a few bytes are in flight at any time, so a command that does not read cannot fill
//! the window. If a call ends early, the number of written bytes is known.

use std::io;

use agent_protocol::v1::{StdinPart, StdinProgress};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use sandbox_api::CommandId;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::command::within;
use super::{AgentHandle, Error};
use sandboxd_model::{CommandRefusal, Refusal, limits};

/// Bytes for a command, as they arrive from a caller.
pub type StdinData = BoxStream<'static, io::Result<Bytes>>;

/// Not all bytes were written.
#[derive(Debug, Error)]
#[error("standard input ended early after {written_bytes} bytes")]
pub struct Unfinished {
    /// Bytes that the command's pipe had accepted by the agent's last report.
    pub written_bytes: u64,
    /// The cause.
    #[source]
    pub cause: Cause,
}

/// Why not all bytes were written.
#[derive(Debug, Error)]
pub enum Cause {
    /// The agent refused the call, or is not connected.
    #[error("the agent did not accept the bytes")]
    Agent(#[from] Error),
    /// The caller's bytes ended early.
    #[error("the caller's bytes ended early")]
    Data(#[from] io::Error),
}

impl AgentHandle {
    /// Writes all of `data` to a command's standard input, which must be open. Then closes it if `close` is set.
    /// Waits for earlier writers before it reads `data`.
    pub async fn write_stdin(&self, id: &CommandId, data: StdinData, close: bool) -> Result<(), Unfinished> {
        let before = |error| Unfinished { written_bytes: 0, cause: Cause::Agent(error) };
        let mut sending = self.open_stdin(id).await.map_err(before)?;
        match sending.send_all(data, close).await {
            Ok(()) => Ok(()),
            Err(cause) => Err(Unfinished { written_bytes: sending.written_with(&cause), cause }),
        }
    }

    async fn open_stdin(&self, id: &CommandId) -> Result<Sending, Error> {
        let (parts, outgoing) = mpsc::channel(limits::STDIN_PARTS + 1);
        // With the request and not after its answer, which would take another round trip.
        let first = StdinPart { command_id: id.to_string(), ..StdinPart::default() };
        let _ = parts.try_send(first);
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        let call = client.write_stdin(ReceiverStream::new(outgoing));
        let progress = within(limits::AGENT_CALL, call).await?.into_inner();
        let mut sending =
            Sending { parts, progress, sent_bytes: 0, written_bytes: 0, sent_parts: 1, done_parts: 0 };
        sending.answer().await?;
        Ok(sending)
    }
}

/// A running call.
struct Sending {
    parts: mpsc::Sender<StdinPart>,
    progress: Streaming<StdinProgress>,
    sent_bytes: u64,
    written_bytes: u64,
    sent_parts: u64,
    done_parts: u64,
}

impl Sending {
    async fn send_all(&mut self, mut data: StdinData, close: bool) -> Result<(), Cause> {
        let mut more = true;
        while more || self.unanswered() > 0 {
            let has_room = self.has_room();
            tokio::select! {
                biased;
                // Polled even if every part is answered: the answer may report that the command has ended.
                answer = self.answer() => answer?,
                piece = data.next(), if more && has_room => match piece.transpose()? {
                    Some(data) => self.send(StdinPart { data, ..StdinPart::default() }),
                    None => {
                        more = false;
                        if close {
                            self.send(StdinPart { close, ..StdinPart::default() });
                        }
                    }
                },
            }
        }
        Ok(())
    }

    /// The number of written bytes. A refusal also counts the bytes of the part that it interrupted.
    fn written_with(&self, cause: &Cause) -> u64 {
        match cause {
            Cause::Agent(Error::Refused(
                Refusal::Command(CommandRefusal::StdinNotOpen { written_bytes, .. })
                | Refusal::Command(CommandRefusal::StdinStalled { written_bytes, .. }),
            )) => (*written_bytes).clamp(self.written_bytes, self.sent_bytes),
            Cause::Agent(_) | Cause::Data(_) => self.written_bytes,
        }
    }

    fn has_room(&self) -> bool {
        let in_flight = self.sent_bytes - self.written_bytes;
        self.unanswered() < limits::STDIN_PARTS as u64 && in_flight < limits::STDIN_WINDOW_BYTES
    }

    fn send(&mut self, part: StdinPart) {
        self.sent_bytes += part.data.len() as u64;
        self.sent_parts += 1;
        // The channel holds as many parts as may be in flight. A call that has ended reports the reason in its
        // answer.
        let _ = self.parts.try_send(part);
    }

    /// Waits for the next answer. Cancel safe.
    async fn answer(&mut self) -> Result<(), Error> {
        let unanswered = self.unanswered();
        let answer = self.progress.message();
        let answer = match unanswered {
            0 => answer.await?,
            _ => within(limits::STDIN_ANSWER, answer).await?,
        };
        let Some(StdinProgress { written_bytes, parts }) = answer else {
            return Err(Error::Malformed { missing: "progress" });
        };
        // The number comes from a sandbox and is used in calculations, so it is checked.
        let is_plausible = (self.written_bytes..=self.sent_bytes).contains(&written_bytes)
            && (self.done_parts..=self.sent_parts).contains(&parts);
        if !is_plausible {
            return Err(Error::Malformed { missing: "progress" });
        }
        self.written_bytes = written_bytes;
        self.done_parts = parts;
        Ok(())
    }

    fn unanswered(&self) -> u64 {
        self.sent_parts - self.done_parts
    }
}
