//! Commands, and those that continue without their stream.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use sandbox_api::ErrorCode;
use sandbox_api::command::{KillCommand, Output, Record, StartCommand};
use sandbox_api::sandbox::StringMap;
use sandbox_client::Client;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Docker, fault, id};
use crate::provider::{Command, CommandId, End, Error, Event, Result, Running, SandboxId};

/// Pause before a request about a kept command is repeated, after sandboxd did not respond. It doubles up to
/// [`PAUSE_MAX`], which is the last one: about 3 seconds in all. With its id, nothing starts twice.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(1600);

impl Docker {
    pub(super) async fn run_command(&self, sandbox: &SandboxId, command: Command) -> Result<Running> {
        let environment = command.environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment: StringMap = environment.collect();
        let request = StartCommand {
            script: Some(command.script),
            env: Some(environment).filter(|environment| !environment.is_empty()),
            timeout_ms: Some(u64::try_from(command.timeout.as_millis()).unwrap_or(u64::MAX)),
            ..StartCommand::default()
        };
        match command.kept_as {
            None => self.run_attached(sandbox, request).await,
            Some(kept) => self.run_kept(sandbox, request, kept).await,
        }
    }

    async fn run_attached(&self, sandbox: &SandboxId, request: StartCommand) -> Result<Running> {
        let (subjects, id, subject) = (self.subjects.clone(), id(sandbox)?, sandbox.subject().cloned());
        // Runs in a task, because a start may succeed after the caller has left. Dropping its stream then ends the
        // command.
        let (started, starts) = oneshot::channel();
        tokio::spawn(async move {
            let (id, request) = (&id, &request);
            let run = |client: Client| async move { client.run(id, request).await };
            started.send(subjects.call(subject.as_ref(), run).await)
        });
        let records = starts.await.map_err(|error| Error::Broken(error.into()))?.map_err(fault)?;
        Ok(Running::new(events(records).boxed()))
    }

    async fn run_kept(
        &self,
        sandbox: &SandboxId,
        mut request: StartCommand,
        kept: CommandId,
    ) -> Result<Running> {
        request.command_id = Some(kept.to_string());
        request.detached = Some(true);
        let (id, request) = (&id(sandbox)?, &request);
        let start = |client: Client| async move { client.start(id, request).await };
        let mut tries = Tries::default();
        loop {
            match self.subjects.call(sandbox.subject(), start).await {
                Ok(_) => return self.records_of(sandbox, kept).await,
                Err(error) if tries.may_try_again(&error) => tries.rest().await,
                Err(error) => match fault(error) {
                    // It may have started in the sandbox that is gone, so it must not start in another one.
                    Error::Gone if tries.count > 0 => {
                        return Err(Error::Broken("the sandbox was lost while a command started".into()));
                    }
                    error => return Err(error),
                },
            }
        }
    }

    /// Follows a kept command from its first output. `None` if the sandbox does not have it.
    pub(super) async fn follow_command(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
    ) -> Result<Option<Running>> {
        let id = &id(sandbox)?;
        let inspect = |client: Client| async move { client.inspect(id, command).await };
        let mut tries = Tries::default();
        loop {
            match self.subjects.call(sandbox.subject(), inspect).await {
                Ok(_) => return self.records_of(sandbox, command.clone()).await.map(Some),
                Err(error) if tries.may_try_again(&error) => tries.rest().await,
                Err(error) => {
                    let is_unknown = error.code() == Some(ErrorCode::NotFound);
                    return match fault(error) {
                        Error::Refused { .. } if is_unknown => Ok(None),
                        error => Err(error),
                    };
                }
            }
        }
    }

    async fn records_of(&self, sandbox: &SandboxId, command: CommandId) -> Result<Running> {
        let (id, subject) = (id(sandbox)?, sandbox.subject().cloned());
        let client = self.subjects.client(subject.as_ref()).await.map_err(fault)?;
        let records = client.follow(&id, &command, 0);
        // The log begins with the output.
        let started = stream::once(async { Ok(Event::Started) });
        let output = events(records).filter(|event| std::future::ready(!matches!(event, Ok(Event::Started))));
        let subjects = self.subjects.clone();
        let end = async move {
            let (id, command, body) = (&id, &command, &KillCommand::default());
            let kill = |client: Client| async move { client.kill(id, command, body).await };
            if let Err(error) = subjects.call(subject.as_ref(), kill).await
                && error.code() != Some(ErrorCode::NotFound)
            {
                tracing::warn!(%error, %command, "a command was not ended; it ends at its time limit");
            }
        };
        Ok(Running::kept(started.chain(output).boxed(), Box::pin(end)))
    }
}

/// Repeats a request that is safe to repeat while sandboxd does not respond.
struct Tries {
    count: u32,
    pause: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        Self { count: 0, pause: PAUSE_FIRST }
    }
}

impl Tries {
    fn may_try_again(&self, error: &sandbox_client::Error) -> bool {
        error.is_temporary() && error.body().is_none() && self.pause <= PAUSE_MAX
    }

    async fn rest(&mut self) {
        sleep(self.pause).await;
        self.count += 1;
        self.pause *= 2;
    }
}

fn events(
    records: impl Stream<Item = std::result::Result<Record, sandbox_client::Error>>,
) -> impl Stream<Item = Result<Event>> {
    records.map(|record| event(record.map_err(fault)?))
}

fn event(record: Record) -> Result<Event> {
    Ok(match record {
        Record::Start { .. } => Event::Started,
        Record::Stdout(output) => Event::Stdout(bytes(output)?),
        Record::Stderr(output) => Event::Stderr(bytes(output)?),
        Record::Gap { dropped_bytes, .. } => Event::Missed { bytes: dropped_bytes },
        // No command of this crate asks for a trace or stages.
        Record::Heartbeat | Record::Trace(_) | Record::Stage(_) => Event::Heartbeat,
        Record::Exit { exit_code, reason, .. } => Event::Ended(End { exit_code, reason }),
    })
}

pub(super) fn bytes(output: Output) -> Result<Bytes> {
    match output.data_base64 {
        None => Ok(output.data.into()),
        Some(bytes) => {
            BASE64_STANDARD.decode(bytes).map(Bytes::from).map_err(|error| Error::Broken(error.into()))
        }
    }
}
