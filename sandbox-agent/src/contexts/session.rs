//! What one interpreter does, as events: it reads the interpreter's channels and waits for its end.

use std::io;
use std::sync::Arc;

use agent_protocol::v1::{RunOutput, Stream, ToolErrorType, tool_answer};
use bytes::{Buf, BytesMut};
use rustix::process::{Signal, WaitStatus};
use serde_json::json;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::frame::{self, Frame};
use super::interpreter::{Channels, Interpreter};
use super::output::Output;
use super::tools::Tools;
use crate::limits::{INTERPRETER_COLLECT, INTERPRETER_EXIT, MAX_CODE_BYTES};
use crate::secrets::Secrets;
use crate::termination;

/// How much is read from the control channel at once.
const READ_BYTES: usize = 64 * 1024;

/// Maximum number of bytes that are read without waiting. Beyond that, other processes than the run's write.
const DRAIN_BYTES: usize = 1024 * 1024;

/// What may wait for an interpreter before nothing more is read of it. The code of a run is the longest message.
const MAX_TO_SEND_BYTES: usize = 2 * MAX_CODE_BYTES;

/// What an interpreter did.
pub(super) enum Event {
    Output(RunOutput),
    /// Nothing that is shown.
    Nothing,
    Record(Frame),
    /// It closed its control channel, or sent something that is not a record.
    Closed,
    Exited,
}

/// The channels of an interpreter.
pub(super) struct Session {
    pub(super) interpreter: Arc<Interpreter>,
    pub(super) secrets: Option<Arc<Secrets>>,
    control: UnixStream,
    received: BytesMut,
    /// What is still to be sent to the interpreter.
    to_send: BytesMut,
    stdout: Output,
    stderr: Output,
    status: oneshot::Receiver<WaitStatus>,
    has_exited: bool,
    /// How the interpreter ended.
    exit_status: Option<WaitStatus>,
}

impl Session {
    pub(super) fn new(
        interpreter: &Arc<Interpreter>,
        channels: Channels,
        status: oneshot::Receiver<WaitStatus>,
        secrets: Option<&Arc<Secrets>>,
    ) -> Self {
        let Channels { control, stdout, stderr } = channels;
        Self {
            interpreter: Arc::clone(interpreter),
            secrets: secrets.cloned(),
            control,
            received: BytesMut::new(),
            to_send: BytesMut::new(),
            stdout: Output::new(stdout, Stream::Stdout, secrets),
            stderr: Output::new(stderr, Stream::Stderr, secrets),
            status,
            has_exited: false,
            exit_status: None,
        }
    }

    /// Sends the code of a run. It arrives while the events are read.
    pub(super) fn send(&mut self, run: u64, code: &str) {
        self.send_message(&run.to_string(), code);
    }

    /// Tells the interpreter which tools its code can call.
    pub(super) fn send_tools(&mut self, tools: &Tools) {
        let names = tools.names();
        if !names.is_empty() {
            self.send_message("tools", &json!(names).to_string());
        }
    }

    /// Answers a request of the code. It arrives while the events are read.
    pub(super) fn answer(&mut self, id: u64, answer: &tool_answer::Outcome) {
        match answer {
            tool_answer::Outcome::Result(json) => {
                self.send_message(&format!("result {id}"), &String::from_utf8_lossy(json));
            }
            tool_answer::Outcome::Error(error) => {
                let named = json!({ "type": name_of(error.r#type()), "message": error.message });
                self.send_message(&format!("error {id}"), &named.to_string());
            }
        }
    }

    fn send_message(&mut self, head: &str, content: &str) {
        for part in [head, "\n", content, "\0"] {
            self.to_send.extend_from_slice(part.as_bytes());
        }
    }

    /// Waits for what the interpreter does next. Safe to cancel.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            // Code that does not read its answers gets no other ones, so they are bounded.
            let is_taken = self.to_send.len() <= MAX_TO_SEND_BYTES;
            if is_taken {
                match frame::take(&mut self.received) {
                    Ok(Some(frame)) => return Event::Record(frame),
                    Ok(None) => {}
                    Err(frame::Garbage) => return Event::Closed,
                }
            }
            if self.has_exited {
                return Event::Exited;
            }
            tokio::select! {
                // The read that follows reports an error.
                _ = self.control.readable(), if is_taken => {
                    if self.read_control().is_err() {
                        return Event::Closed;
                    }
                }
                _ = self.control.writable(), if !self.to_send.is_empty() => {
                    if let Ok(bytes) = self.control.try_write(&self.to_send) {
                        self.to_send.advance(bytes);
                    }
                }
                () = self.stdout.readable() => return shown(self.stdout.take()),
                () = self.stderr.readable() => return shown(self.stderr.take()),
                status = &mut self.status => {
                    self.note_exit(status.ok());
                    // Records that it sent before count.
                    while let Ok(bytes) = self.read_control() && bytes > 0 {}
                }
            }
        }
    }

    /// Reads once. Returns 0 if there is nothing to read.
    fn read_control(&mut self) -> io::Result<usize> {
        self.received.reserve(READ_BYTES);
        let start = self.received.len();
        self.received.resize(start + READ_BYTES, 0);
        let read = self.control.try_read(&mut self.received[start..]);
        self.received.truncate(start + read.as_ref().copied().unwrap_or_default());
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Reads what is in the output pipes.
    pub(super) fn drain(&mut self) -> Vec<RunOutput> {
        let mut outputs = Vec::new();
        for output in [&mut self.stdout, &mut self.stderr] {
            let mut left = DRAIN_BYTES;
            while left > 0
                && let Some((bytes, shown)) = output.take()
            {
                left = left.saturating_sub(bytes);
                outputs.extend(shown);
            }
        }
        outputs
    }

    /// Returns what was held back of the output, at the end of a run.
    pub(super) fn finish(&mut self) -> Vec<RunOutput> {
        let mut outputs = self.drain();
        outputs.extend(self.stdout.finish());
        outputs.extend(self.stderr.finish());
        outputs
    }

    /// Waits for the end of an interpreter that closed its channel, and ends it if it stays. Returns how it ended by itself.
    pub(super) async fn exit(&mut self) -> Option<WaitStatus> {
        if !self.has_exited
            && let Ok(status) = timeout(INTERPRETER_EXIT, &mut self.status).await
        {
            self.note_exit(status.ok());
        }
        let by_itself = self.exit_status;
        self.end().await;
        by_itself
    }

    /// Ends the interpreter and everything that was started from it.
    pub(super) async fn end(&mut self) {
        termination::end(self.interpreter.as_ref(), Signal::KILL).await;
        if !self.has_exited
            && let Ok(status) = timeout(INTERPRETER_COLLECT, &mut self.status).await
        {
            self.note_exit(status.ok());
        }
    }

    fn note_exit(&mut self, status: Option<WaitStatus>) {
        self.interpreter.set_main_collected();
        self.has_exited = true;
        self.exit_status = status;
    }
}

fn shown(taken: Option<(usize, Option<RunOutput>)>) -> Event {
    match taken {
        Some((_, Some(output))) => Event::Output(output),
        _ => Event::Nothing,
    }
}

/// Name of a type of error, as the code sees it.
fn name_of(error: ToolErrorType) -> &'static str {
    match error {
        ToolErrorType::Permission => "permission_error",
        ToolErrorType::Timeout => "timeout",
        ToolErrorType::Validation => "validation_error",
        ToolErrorType::Internal | ToolErrorType::Unspecified => "internal_error",
    }
}
