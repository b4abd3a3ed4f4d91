//! Copies a command's output from its pipes to its log.
//!
//! Runs until all pipes have no writer left. That may be long after the command's main process ended, because its
//! children may keep writing. After the main process ends, [`Capture::run`] first copies what is in the pipes without
//! waiting for any reader, and sets `drained`. Only then is the command's end recorded.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::command::Command;
use crate::output::Stream;
use crate::secrets::{Redactor, Secrets};
use crate::text::Cutter;

/// How long a pipe may stay open and silent after the end of the main process before the end is recorded.
const DRAIN: Duration = Duration::from_millis(50);

/// Maximum number of bytes that the drain reads. Anything beyond counts as later output of children.
const DRAIN_BYTES: usize = 1024 * 1024;

/// Maximum size of a record.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// One read buffer for all commands. A read and the copy out of it are never interrupted.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// One output pipe, and what is held back at its end: the beginning of a secret value, and an incomplete character.
struct Source {
    pipe: Option<pipe::Receiver>,
    stream: Stream,
    redactor: Option<Redactor>,
    cutter: Cutter,
}

impl Source {
    fn new(pipe: Option<pipe::Receiver>, stream: Stream, secrets: Option<&Arc<Secrets>>) -> Self {
        let redactor = secrets.map(|secrets| Redactor::new(Arc::clone(secrets)));
        Self { pipe, stream, redactor, cutter: Cutter::default() }
    }

    /// Waits until the pipe is readable. Waits forever if it is closed.
    async fn readable(&self) {
        match &self.pipe {
            // The read that follows reports an error.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Reads once into the command's log, and returns the number of bytes.
    fn take(&mut self, command: &Command) -> usize {
        let Some(pipe) = &self.pipe else {
            return 0;
        };
        let read = SCRATCH.with_borrow_mut(|scratch| match pipe.try_read(scratch) {
            Ok(0) => None,
            Ok(length) => {
                let record = match &mut self.redactor {
                    None => self.cutter.cut(&scratch[..length]),
                    Some(redactor) => self.cutter.cut(&redactor.push(&scratch[..length])),
                };
                record.into_iter().for_each(|record| command.record(self.stream, record));
                Some(length)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        });
        if read.is_none() {
            self.pipe = None;
            let held = self.redactor.as_mut().map(Redactor::finish).unwrap_or_default();
            let rest = [self.cutter.cut(&held), self.cutter.flush()];
            rest.into_iter().flatten().for_each(|record| command.record(self.stream, record));
        }
        read.unwrap_or(0)
    }
}

/// The output pipes of a command.
pub(crate) struct Capture {
    stdout: Source,
    stderr: Source,
    trace: Source,
}

impl Capture {
    pub(crate) fn new(
        stdout: pipe::Receiver,
        stderr: pipe::Receiver,
        trace: Option<pipe::Receiver>,
        secrets: Option<&Arc<Secrets>>,
    ) -> Self {
        Self {
            stdout: Source::new(Some(stdout), Stream::Stdout, secrets),
            stderr: Source::new(Some(stderr), Stream::Stderr, secrets),
            trace: Source::new(trace, Stream::Trace, secrets),
        }
    }

    /// Captures until the last writer closes its end. `main_ended` becomes true when the main process ends. `drained`
    /// is set when everything that it wrote is in the log.
    pub(crate) async fn run(
        mut self,
        command: Arc<Command>,
        mut main_ended: watch::Receiver<bool>,
        drained: watch::Sender<bool>,
    ) {
        while self.is_open() {
            tokio::select! {
                // A dropped sender means that the supervisor is gone. The output is still kept.
                ended = main_ended.wait_for(|ended| *ended) => {
                    drop(ended);
                    break;
                }
                () = self.next(&command) => {}
            }
        }
        self.drain(&command).await;
        drained.send_replace(true);
        while self.is_open() {
            self.next(&command).await;
        }
        command.close_output_file().await;
    }

    fn is_open(&self) -> bool {
        [&self.stdout, &self.stderr, &self.trace].into_iter().any(|source| source.pipe.is_some())
    }

    /// Reads once, as soon as there is data and room for it in the log. Safe to cancel.
    async fn next(&mut self, command: &Command) {
        command.wait_for_room().await;
        self.take_next(command).await;
    }

    /// Reads once, as soon as there is data. Returns the number of bytes.
    async fn take_next(&mut self, command: &Command) -> usize {
        tokio::select! {
            () = self.stdout.readable() => self.stdout.take(command),
            () = self.stderr.readable() => self.stderr.take(command),
            () = self.trace.readable() => self.trace.take(command),
        }
    }

    async fn drain(&mut self, command: &Command) {
        let deadline = Instant::now() + DRAIN;
        let mut taken = 0;
        while self.is_open() && taken < DRAIN_BYTES {
            match timeout_at(deadline, self.take_next(command)).await {
                Ok(bytes) => taken += bytes,
                Err(_) => return,
            }
        }
    }
}
