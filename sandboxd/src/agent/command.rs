//! Commands, over the wire to the agent and back.

use std::time::Duration;

use agent_protocol::STDIN_AND_READ_ONLY_SINCE;
use agent_protocol::v1::{self, command_event, start_request};
use futures::{Stream, StreamExt};
use sandbox_api::CommandId;
use sandbox_api::command::EndReason;
use tokio::time::timeout;
use tonic::Streaming;

use super::{AgentHandle, Error};
use crate::model::command::{CommandStatus, KilledBy, Started};
use crate::model::{CommandSpec, Ended, Event, Program, command, limits};

/// What a reader of a command hears, until the connection ends.
pub type EventStream = std::pin::Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>>;

impl AgentHandle {
    /// Starts a command; the answer means that it runs.
    pub async fn start(&self, spec: &CommandSpec) -> Result<Started, Error> {
        let mut client = self.client_since(generation_for(spec), limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.start(to_wire(spec))).await?;
        Ok(started(&reply.into_inner()))
    }

    /// Starts a command and reads it from the beginning as its own reader.
    pub async fn run(&self, spec: &CommandSpec) -> Result<EventStream, Error> {
        let mut client = self.client_since(generation_for(spec), limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.run(to_wire(spec))).await?;
        Ok(events(reply.into_inner()))
    }

    /// Reads a command after record `after`.
    pub async fn attach(&self, id: &CommandId, after: u64, follow: bool) -> Result<EventStream, Error> {
        let request = v1::AttachRequest { command_id: id.to_string(), after_seq: after, follow };
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.attach(request)).await?;
        Ok(events(reply.into_inner()))
    }

    /// Waits for a command's end, as long as it takes.
    pub async fn wait(&self, id: &CommandId) -> Result<Ended, Error> {
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        ended(&client.wait(reference(id)).await?.into_inner())
    }

    /// What is known of a command.
    pub async fn inspect(&self, id: &CommandId) -> Result<CommandStatus, Error> {
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        let status = within(limits::AGENT_CALL, client.inspect(reference(id))).await?.into_inner();
        Ok(CommandStatus {
            started: started(&status.started.ok_or(Error::Nonsense { missing: "started" })?),
            ended: status.ended.as_ref().map(ended).transpose()?,
            argv: status.argv,
            cwd: status.cwd,
            stdout_bytes: status.stdout_bytes,
            stderr_bytes: status.stderr_bytes,
            dropped_bytes: status.dropped_bytes,
        })
    }

    /// Ends a command, beginning with `signal`; answers when nothing of it is left, or fails after `deadline`. True
    /// where it had ended before.
    pub async fn end(&self, id: &CommandId, signal: i32, deadline: Duration) -> Result<bool, Error> {
        self.signal_with(id, signal, true, deadline).await
    }

    /// Sends one signal. True where the command had ended before.
    pub async fn signal(&self, id: &CommandId, signal: i32) -> Result<bool, Error> {
        self.signal_with(id, signal, false, limits::AGENT_CALL).await
    }

    async fn signal_with(
        &self,
        id: &CommandId,
        signal: i32,
        until_gone: bool,
        deadline: Duration,
    ) -> Result<bool, Error> {
        let request = v1::SignalRequest { command_id: id.to_string(), signal, until_gone };
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        let reply = within(deadline, client.signal(request)).await?;
        Ok(reply.into_inner().already_ended)
    }

    /// What the agent says of itself and of its sandbox.
    pub async fn info(&self) -> Result<AgentInfo, Error> {
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        let info = within(limits::AGENT_CALL, client.info(v1::InfoRequest {})).await?.into_inner();
        Ok(AgentInfo {
            resident_bytes: info.resident_bytes,
            running_commands: info.running_commands,
            busy_terminals: info.busy_terminals,
            disk_used_bytes: info.disk_used_bytes,
        })
    }
}

/// What an agent says of itself and of its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentInfo {
    /// Bytes of the agent that are in memory.
    pub resident_bytes: u64,
    /// Commands that run.
    pub running_commands: u32,
    /// Terminals in which something other than a waiting shell runs.
    pub busy_terminals: u32,
    /// What is taken of the file system the workspace is on.
    pub disk_used_bytes: u64,
}

impl AgentInfo {
    /// Whether something runs that nobody should be deprived of.
    pub fn is_busy(&self) -> bool {
        self.running_commands > 0 || self.busy_terminals > 0
    }
}

pub(super) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, tonic::Status>>,
) -> Result<T, Error> {
    Ok(timeout(deadline, call).await.map_err(|_| Error::Deadline { after: deadline })??)
}

fn reference(id: &CommandId) -> v1::CommandRef {
    v1::CommandRef { command_id: id.to_string() }
}

/// The oldest agent that does all of what the command asks for.
fn generation_for(spec: &CommandSpec) -> u32 {
    if spec.open_stdin || spec.read_only { STDIN_AND_READ_ONLY_SINCE } else { 0 }
}

fn to_wire(spec: &CommandSpec) -> v1::StartRequest {
    v1::StartRequest {
        command_id: spec.id.to_string(),
        program: Some(match &spec.program {
            Program::Argv { program, args } => {
                start_request::Program::Argv(v1::Argv { program: program.clone(), args: args.clone() })
            }
            Program::Script(script) => start_request::Program::Script(script.clone()),
        }),
        cwd: spec.cwd.clone(),
        env: spec.env.clone(),
        stdin: spec.stdin.clone(),
        timeout_ms: spec.timeout.as_millis() as u64,
        detached: spec.detached,
        open_stdin: spec.open_stdin,
        read_only: spec.read_only,
    }
}

fn events(stream: Streaming<v1::CommandEvent>) -> EventStream {
    stream
        .map(|event| {
            let event = event?.event.ok_or(Error::Nonsense { missing: "event" })?;
            Ok(match event {
                command_event::Event::Started(wire) => Event::Started(started(&wire)),
                command_event::Event::Output(output) => {
                    Event::Output(output.records.into_iter().map(record).collect())
                }
                command_event::Event::Gap(gap) => {
                    Event::Gap { dropped_bytes: gap.dropped_bytes, next_seq: gap.next_seq }
                }
                command_event::Event::Ended(wire) => Event::Ended(ended(&wire)?),
            })
        })
        .boxed()
}

fn record(wire: v1::Record) -> command::Record {
    let stream = match wire.stream() {
        v1::Stream::Stderr => command::Stream::Stderr,
        v1::Stream::Stdout | v1::Stream::Unspecified => command::Stream::Stdout,
    };
    command::Record { seq: wire.seq, stream, data: wire.data }
}

fn started(wire: &v1::Started) -> Started {
    Started {
        at_ms: wire.started_at_ms,
        timeout: Duration::from_millis(wire.timeout_ms),
        detached: wire.detached,
    }
}

fn ended(wire: &v1::Ended) -> Result<Ended, Error> {
    let reason = match wire.reason() {
        v1::EndReason::Exited => EndReason::Exited,
        v1::EndReason::Timeout => EndReason::Timeout,
        v1::EndReason::Killed => EndReason::Killed,
        v1::EndReason::Oom => EndReason::Oom,
        v1::EndReason::Unspecified => return Err(Error::Nonsense { missing: "reason" }),
    };
    Ok(Ended {
        reason,
        exit_code: wire.exit_code,
        signal: (wire.signal != 0).then_some(wire.signal),
        duration: Duration::from_millis(wire.duration_ms),
        stdout_bytes: wire.stdout_bytes,
        stderr_bytes: wire.stderr_bytes,
        dropped_bytes: wire.dropped_bytes,
        killed_by: wire.swept.then_some(KilledBy::Sweep),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::io::AsyncWriteExt;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::agent::{link, pair};

    #[tokio::test]
    async fn an_agent_that_would_pass_over_what_must_hold_is_not_asked() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        theirs.write_all(b"sandbox-agent 2 right\n").await.unwrap();
        let (link, driver) = link::open(ours, "right", CancellationToken::new()).await.unwrap();
        let _driver = tokio::spawn(driver);
        let (agent, keeper) = pair();
        keeper.link.send_replace(Some(link));
        let plain = CommandSpec {
            id: "cmd_0123456789abcdef".parse().unwrap(),
            is_named: false,
            program: Program::Script("true".into()),
            cwd: String::new(),
            env: HashMap::new(),
            stdin: None,
            open_stdin: false,
            read_only: false,
            timeout: Duration::from_secs(1),
            detached: false,
        };
        let read_only = CommandSpec { read_only: true, ..plain.clone() };
        let open_stdin = CommandSpec { open_stdin: true, ..plain.clone() };
        for spec in [read_only, open_stdin] {
            assert!(matches!(agent.start(&spec).await, Err(Error::Outdated)));
            assert!(matches!(agent.run(&spec).await.map(drop), Err(Error::Outdated)));
        }
        // The others it is asked for, and answers in its own time.
        let asked = timeout(limits::RECHECK, agent.start(&plain)).await;
        assert!(asked.is_err(), "{asked:?}");
    }
}
