//! Moves what a command writes from its pipes into its log.
//!
//! Runs until both pipes have no writer left, which may be long after the command's main process ended:
//! children keep writing, and it is kept. When the main process has ended, [`Capture::run`] first takes what
//! is in the pipes, without waiting for any reader, and says so; only then is the command's end recorded.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::command::Command;
use crate::output::Stream;
use crate::text::Cutter;

/// How long a pipe may stay open and silent after the main process's end before the end is recorded.
const DRAIN: Duration = Duration::from_millis(50);

/// Most that is taken during the drain; what children write beyond is late output.
const DRAIN_BYTES: usize = 1024 * 1024;

/// Largest record.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// One read buffer for all commands, since a read and the copy out of it are never interrupted.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// One output pipe and the character it may be in the middle of.
struct Source {
    pipe: Option<pipe::Receiver>,
    stream: Stream,
    cutter: Cutter,
}

impl Source {
    fn new(pipe: pipe::Receiver, stream: Stream) -> Self {
        Self { pipe: Some(pipe), stream, cutter: Cutter::default() }
    }

    /// Waits until a read would bring something; never, once the pipe is closed.
    async fn readable(&self) {
        match &self.pipe {
            // An error shows itself in the read that follows.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Takes one read's worth into the command's log; the number of bytes.
    fn take(&mut self, command: &Command) -> usize {
        let Some(pipe) = &self.pipe else {
            return 0;
        };
        let read = SCRATCH.with_borrow_mut(|scratch| match pipe.try_read(scratch) {
            Ok(0) => None,
            Ok(length) => {
                if let Some(record) = self.cutter.cut(&scratch[..length]) {
                    command.record(self.stream, record);
                }
                Some(length)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        });
        if read.is_none() {
            self.pipe = None;
            if let Some(rest) = self.cutter.flush() {
                command.record(self.stream, rest);
            }
        }
        read.unwrap_or(0)
    }
}

/// Both output pipes of a command.
pub(crate) struct Capture {
    stdout: Source,
    stderr: Source,
}

impl Capture {
    pub(crate) fn new(stdout: pipe::Receiver, stderr: pipe::Receiver) -> Self {
        Self { stdout: Source::new(stdout, Stream::Stdout), stderr: Source::new(stderr, Stream::Stderr) }
    }

    /// Captures to the last writer's end. `main_ended` turns true with the main process; `drained` is set
    /// when everything it wrote is in the log.
    pub(crate) async fn run(
        mut self,
        command: Arc<Command>,
        mut main_ended: watch::Receiver<bool>,
        drained: watch::Sender<bool>,
    ) {
        while self.is_open() {
            tokio::select! {
                // A vanished sender means that the command's task is gone; the output still counts.
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
    }

    fn is_open(&self) -> bool {
        self.stdout.pipe.is_some() || self.stderr.pipe.is_some()
    }

    /// One read, as soon as there is something to read and room to keep it. Safe to cancel.
    async fn next(&mut self, command: &Command) {
        command.room().await;
        tokio::select! {
            () = self.stdout.readable() => drop(self.stdout.take(command)),
            () = self.stderr.readable() => drop(self.stderr.take(command)),
        }
    }

    async fn drain(&mut self, command: &Command) {
        let deadline = Instant::now() + DRAIN;
        let mut taken = 0;
        while self.is_open() && taken < DRAIN_BYTES {
            let read = async {
                tokio::select! {
                    () = self.stdout.readable() => self.stdout.take(command),
                    () = self.stderr.readable() => self.stderr.take(command),
                }
            };
            match timeout_at(deadline, read).await {
                Ok(bytes) => taken += bytes,
                Err(_) => return,
            }
        }
    }
}
