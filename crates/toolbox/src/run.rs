//! Commands that end before the call does, for interfaces without commands in the background.

use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, Output, Record, StartCommand};
use sandbox_client::Error as ClientError;
use tokio::time::{Instant, sleep_until};

use crate::Error;
use crate::bash::bytes_of;
use crate::progress::LastLine;
use crate::toolbox::{Call, Toolbox};

/// Exit code of a cancelled command, as a shell reports an interrupt.
const CANCELLED: i32 = 130;

/// An output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) exit_code: i32,
    pub(crate) reason: EndReason,
    pub(crate) signal: Option<String>,
    pub(crate) duration_ms: u64,
}

impl Toolbox {
    /// Runs a command and passes its output to `output`. A call that is cancelled ends the command.
    pub(crate) async fn run_to_end(
        &self,
        sandbox: &SandboxId,
        request: &StartCommand,
        call: &Call<'_>,
        mut output: impl FnMut(Stream, &[u8]),
    ) -> Result<End, Error> {
        let began = Instant::now();
        let mut records = self.client.run(sandbox, request).await?;
        let mut last_line = LastLine::default();
        let pause = call.progress.pause();
        let mut next_report = pause.map(|pause| began + pause);
        loop {
            if next_report.is_some_and(|at| Instant::now() >= at) {
                call.progress.report(&last_line.take()).await;
                next_report = pause.map(|pause| Instant::now() + pause);
            }
            let record = tokio::select! {
                biased;
                // Dropping the records ends the command.
                () = call.cancel.cancelled() => return Ok(cancelled(began)),
                record = records.next() => record.unwrap_or(Err(ClientError::Cut)).map_err(|error| {
                    Error::from(error).after_start()
                })?,
                () = sleep_until(next_report.unwrap_or(began)), if next_report.is_some() => continue,
            };
            let mut pass = |stream: Stream, piece: &Output| {
                output(stream, &bytes_of(piece));
                last_line.push(&piece.data);
            };
            match record {
                Record::Stdout(piece) => pass(Stream::Stdout, &piece),
                Record::Stderr(piece) => pass(Stream::Stderr, &piece),
                Record::Gap { dropped_bytes, .. } => {
                    let notice = format!("\n[{dropped_bytes} bytes of output were not kept]\n");
                    output(Stream::Stdout, notice.as_bytes());
                }
                Record::Exit { exit_code, signal, reason, duration_ms, .. } => {
                    return Ok(End { exit_code, reason, signal, duration_ms });
                }
                _ => {}
            }
        }
    }
}

fn cancelled(began: Instant) -> End {
    End {
        exit_code: CANCELLED,
        reason: EndReason::Killed,
        signal: None,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}
