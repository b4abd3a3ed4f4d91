//! Commands in a sandbox, and their events.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use sandbox_api::CommandId;
pub use sandbox_api::command::EndReason;

use super::Result;

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Script for bash. It runs in the workspace.
    pub script: String,
    /// Time limit from the start. After it, the command and everything it started is ended.
    pub timeout: Duration,
    /// Environment variables in addition to those of the sandbox: at most 64, 32 KiB in total.
    pub environment: Environment,
    /// Id under which the provider keeps the command: it continues without its [`Running`] and this app, up to its time
    /// limit, and [`follow`](super::Provider::follow) finds it.
    pub kept_as: Option<CommandId>,
}

impl Command {
    /// Creates a command without variables of its own.
    pub fn new(script: impl Into<String>, timeout: Duration) -> Self {
        Self { script: script.into(), timeout, environment: Environment::default(), kept_as: None }
    }
}

/// Environment variables by name. They may contain secrets, so values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Adds a variable.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// An event of a command, in order: the start, output, the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The command runs.
    Started,
    /// Bytes of standard output, split at any position.
    Stdout(Bytes),
    /// Bytes of standard error, split at any position.
    Stderr(Bytes),
    /// Output that the provider no longer has.
    Missed {
        /// Number of missing bytes.
        bytes: u64,
    },
    /// No output for a while.
    Heartbeat,
    /// Last event: the command has ended.
    Ended(End),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Exit code, as a shell would report it. 124 if the time limit expired.
    pub exit_code: i32,
    /// Why the command ended.
    pub reason: EndReason,
}

/// A running command. Dropping it ends the command, unless the provider keeps it.
pub struct Running {
    events: BoxStream<'static, Result<Event>>,
    /// Ends a kept command.
    end: Option<BoxFuture<'static, ()>>,
}

impl Running {
    /// Wraps a provider's stream. Dropping the stream must end the command.
    pub fn new(events: BoxStream<'static, Result<Event>>) -> Self {
        Self { events, end: None }
    }

    /// Wraps the stream of a kept command, which continues without it. `end` ends the command.
    pub fn kept(events: BoxStream<'static, Result<Event>>, end: BoxFuture<'static, ()>) -> Self {
        Self { events, end: Some(end) }
    }

    /// Ends the command, also a kept one.
    pub async fn end(self) {
        drop(self.events);
        if let Some(end) = self.end {
            end.await;
        }
    }

    /// Holds a value until the command has ended, or its stream is dropped.
    pub(crate) fn holding(self, held: impl Send + 'static) -> Self {
        let events = self.events.map(move |event| {
            let _held = &held;
            event
        });
        Self { events: events.boxed(), end: self.end }
    }
}

impl Stream for Running {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}
