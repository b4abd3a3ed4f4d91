//! A command in a sandbox, and what is heard of it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;

use super::Result;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// For bash, in the workspace.
    pub script: String,
    /// From its start on; then it is ended, with all that it started.
    pub timeout: Duration,
    /// On top of what every command of the sandbox has: up to 64 variables, 32 KiB together.
    pub environment: Environment,
}

impl Command {
    /// Without variables of its own.
    pub fn new(script: impl Into<String>, timeout: Duration) -> Self {
        Self { script: script.into(), timeout, environment: Environment::default() }
    }
}

/// Variables by name. Here secrets go into a sandbox, so values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// With one more.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Names with values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What is heard of a command, in order: that it started, its output, its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It runs.
    Started,
    /// Bytes of its standard output, cut anywhere.
    Stdout(Bytes),
    /// Bytes of its standard error, cut anywhere.
    Stderr(Bytes),
    /// Output that the provider does not have any more.
    Missed {
        /// How much.
        bytes: u64,
    },
    /// Nothing, for a while.
    Heartbeat,
    /// It ended. The last event.
    Ended(End),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// As a shell would report it; 124 where it ran out of time.
    pub exit_code: i32,
    /// Why.
    pub reason: EndReason,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// By itself.
    Exited,
    /// It ran out of time.
    Timeout,
    /// By a signal.
    Killed,
    /// The sandbox's memory was full.
    Oom,
    /// Its sandbox went away and nobody can tell.
    Lost,
}

/// A command that runs. Dropping it ends the command.
pub struct Running {
    events: BoxStream<'static, Result<Event>>,
}

impl Running {
    /// Of a provider's stream, which must end the command when it is dropped.
    pub fn new(events: BoxStream<'static, Result<Event>>) -> Self {
        Self { events }
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
