//! One output pipe of an interpreter, and what is held back at its end: the beginning of a secret value, and an incomplete
//! character.

use std::io;
use std::sync::Arc;

use agent_protocol::v1::{RunOutput, Stream};
use bytes::Bytes;
use tokio::net::unix::pipe;

use crate::secrets::{Redactor, Secrets};
use crate::text::Cutter;

/// Maximum size of one read.
const READ_BYTES: usize = 64 * 1024;

/// An output pipe.
#[derive(Debug)]
pub(super) struct Output {
    pipe: Option<pipe::Receiver>,
    stream: Stream,
    secrets: Option<Arc<Secrets>>,
    redactor: Option<Redactor>,
    cutter: Cutter,
    buffer: Vec<u8>,
}

impl Output {
    pub(super) fn new(pipe: pipe::Receiver, stream: Stream, secrets: Option<&Arc<Secrets>>) -> Self {
        let secrets = secrets.cloned();
        let redactor = secrets.clone().map(Redactor::new);
        let buffer = vec![0; READ_BYTES];
        Self { pipe: Some(pipe), stream, secrets, redactor, cutter: Cutter::default(), buffer }
    }

    /// Waits until the pipe is readable. Waits forever if it is closed.
    pub(super) async fn readable(&self) {
        match &self.pipe {
            // The read that follows reports an error.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Reads once. Returns `None` if there is nothing to read, and otherwise the number of bytes with what of them may be
    /// shown.
    pub(super) fn take(&mut self) -> Option<(usize, Option<RunOutput>)> {
        match read(self.pipe.as_ref()?, &mut self.buffer) {
            Ok(length) if length > 0 => {
                let shown = match &mut self.redactor {
                    None => self.cutter.cut(&self.buffer[..length]),
                    Some(redactor) => self.cutter.cut(&redactor.push(&self.buffer[..length])),
                };
                Some((length, shown.map(|data| self.to_wire(data))))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            _ => {
                self.pipe = None;
                None
            }
        }
    }

    /// Returns what was held back, at the end of a run.
    pub(super) fn finish(&mut self) -> Vec<RunOutput> {
        let held = self.redactor.as_mut().map(Redactor::finish).unwrap_or_default();
        self.redactor = self.secrets.clone().map(Redactor::new);
        let rest = [self.cutter.cut(&held), self.cutter.flush()];
        rest.into_iter().flatten().map(|data| self.to_wire(data)).collect()
    }

    fn to_wire(&self, data: Bytes) -> RunOutput {
        RunOutput { stream: self.stream as i32, data }
    }
}

/// Reads what is in the pipe now. Tokio answers without a read until its reactor has heard of the bytes, and a record on
/// another channel may arrive before that, although the interpreter wrote it later.
fn read(pipe: &pipe::Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    match pipe.try_read(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(rustix::io::read(pipe, buffer)?),
        other => other,
    }
}
