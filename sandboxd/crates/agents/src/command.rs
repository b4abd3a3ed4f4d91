//! Commands: calls to the agent.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_protocol::v1::{self, command_event, start_request};
use agent_protocol::{
    DEBUG_AND_SECRETS_SINCE, RESOURCE_LIMITS_SINCE, STAGES_SINCE, STDIN_AND_READ_ONLY_SINCE,
};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use prost::Message as _;
use sandbox_api::CommandId;
use sandbox_api::command::EndReason;
use tokio::time::timeout;
use tonic::Streaming;

use super::{AgentHandle, Error};
use sandboxd_model::command::{CommandStatus, KilledBy, OutputFile, StageEnd, Started};
use sandboxd_model::pipeline::StageText;
use sandboxd_model::read_only::{ReadOnlyViolation, WriteOperation};
use sandboxd_model::resource_limits::{Exceeded, ResourceLimit};
use sandboxd_model::secret::Secret;
use sandboxd_model::{CommandSpec, Ended, Event, Program, RequestDigest, ResourceLimits, command, limits};

/// The events of a command, until the connection ends.
pub type EventStream = std::pin::Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>>;

impl AgentHandle {
    /// Starts a command. Returns when the command runs.
    pub async fn start(&self, spec: &CommandSpec) -> Result<Started, Error> {
        let mut client = self.client_since(generation_for(spec), limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.start(to_wire(spec))).await?;
        Ok(started(&reply.into_inner()))
    }

    /// Starts a command and reads it from the beginning, as the reader `reader`.
    pub async fn run(&self, spec: &CommandSpec, reader: ReaderId) -> Result<EventStream, Error> {
        let mut client = self.client_since(generation_for(spec), limits::AGENT_ABSENCE).await?;
        let request = v1::StartRequest { reader: reader.get(), ..to_wire(spec) };
        let reply = within(limits::AGENT_CALL, client.run(request)).await?;
        Ok(events(reply.into_inner()))
    }

    /// Reads the events of a command after record `after`, as the reader `reader`.
    pub async fn attach(
        &self,
        id: &CommandId,
        after: u64,
        follow: bool,
        reader: ReaderId,
    ) -> Result<EventStream, Error> {
        let request =
            v1::AttachRequest { command_id: id.to_string(), after_seq: after, follow, reader: reader.get() };
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.attach(request)).await?;
        Ok(events(reply.into_inner()))
    }

    /// Reports that a reader has left on purpose.
    pub async fn reader_left(&self, id: &CommandId, reader: ReaderId) -> Result<(), Error> {
        self.tell_of_reader(id, reader, false).await
    }

    /// Reports that a reader without a connection will come back. The agent keeps its position for as long as after
    /// a broken connection.
    pub async fn reader_is_slow(&self, id: &CommandId, reader: ReaderId) -> Result<(), Error> {
        self.tell_of_reader(id, reader, true).await
    }

    async fn tell_of_reader(&self, id: &CommandId, reader: ReaderId, comes_back: bool) -> Result<(), Error> {
        let request = v1::ReaderLeftRequest { command_id: id.to_string(), reader: reader.get(), comes_back };
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        within(limits::AGENT_CALL, client.reader_left(request)).await.map(drop)
    }

    /// Waits for the end of a command, without a time limit.
    pub async fn wait(&self, id: &CommandId) -> Result<Ended, Error> {
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        ended(&client.wait(reference(id)).await?.into_inner())
    }

    /// State of a command.
    pub async fn inspect(&self, id: &CommandId) -> Result<CommandStatus, Error> {
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        status_of(within(limits::AGENT_CALL, client.inspect(reference(id))).await?.into_inner())
    }

    /// A page of the commands after number `after` whose end is not recorded, without those in `recorded`. Skips
    /// commands with invalid values.
    pub async fn unrecorded_commands(&self, recorded: Vec<u64>, after: u64) -> Result<KnownCommands, Error> {
        let mut client = self.client(limits::AGENT_ABSENCE).await?;
        let request = v1::ListCommandsRequest { recorded, after };
        let reply = within(limits::AGENT_CALL, client.list_commands(request)).await?.into_inner();
        Ok(KnownCommands {
            commands: reply.commands.into_iter().filter_map(known).collect(),
            more: reply.more,
        })
    }

    /// Ends a command, beginning with `signal`. Returns when all of its processes have ended, or fails after
    /// `deadline`. True if the command had already ended.
    pub async fn end(&self, id: &CommandId, signal: i32, deadline: Duration) -> Result<bool, Error> {
        self.signal_with(id, signal, true, deadline).await
    }

    /// Sends one signal. True if the command had already ended.
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

    /// Information about the agent and its sandbox.
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

/// Distinguishes a reader of a command from all others, across connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderId(NonZeroU64);

impl ReaderId {
    /// A new id. The ids begin at a random number, because agents outlive the daemon.
    pub fn next() -> Self {
        static NEXT: LazyLock<AtomicU64> =
            LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish()));
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }

    fn get(self) -> u64 {
        self.0.get()
    }
}

/// A page of the commands that an agent knows.
#[derive(Debug)]
pub struct KnownCommands {
    /// Commands in the order of their start.
    pub commands: Vec<KnownCommand>,
    /// Whether more commands follow.
    pub more: bool,
}

/// A command that an agent knows.
#[derive(Debug)]
pub struct KnownCommand {
    /// Sequence number among the commands of this agent.
    pub number: u64,
    /// Id of the command.
    pub id: CommandId,
    /// Identifies the request that started the command.
    pub digest: Option<RequestDigest>,
    /// State of the command.
    pub status: CommandStatus,
}

/// Information about an agent and its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentInfo {
    /// Resident memory of the agent in bytes.
    pub resident_bytes: u64,
    /// Number of running commands.
    pub running_commands: u32,
    /// Number of terminals that run something other than a waiting shell.
    pub busy_terminals: u32,
    /// Used space of the workspace's file system in bytes.
    pub disk_used_bytes: u64,
}

impl AgentInfo {
    /// Whether something runs that must not be interrupted, besides this number of passive commands.
    pub fn is_busy(&self, passive_commands: usize) -> bool {
        self.running_commands as usize > passive_commands || self.busy_terminals > 0
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

/// The oldest generation of agents that supports every option of the command.
fn generation_for(spec: &CommandSpec) -> u32 {
    let since = |is_used: bool, generation| if is_used { generation } else { 0 };
    since(!spec.resource_limits.is_empty(), RESOURCE_LIMITS_SINCE)
        .max(since(spec.debug || !spec.secrets.is_empty(), DEBUG_AND_SECRETS_SINCE))
        .max(since(spec.stages.as_ref().is_some_and(|stages| !stages.is_empty()), STAGES_SINCE))
        .max(since(spec.open_stdin || spec.read_only, STDIN_AND_READ_ONLY_SINCE))
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
        reader: 0,
        request_digest: spec
            .digest
            .map(|digest| Bytes::copy_from_slice(digest.as_bytes()))
            .unwrap_or_default(),
        output_file_after: spec.output_file_after,
        debug: spec.debug,
        secrets: secrets_to_wire(&spec.secrets),
        resource_limits: (!spec.resource_limits.is_empty()).then(|| resource_limits(spec.resource_limits)),
        stages: match &spec.program {
            Program::Script(script) => {
                spec.stages.iter().flatten().map(|stage| stage_of(script, stage)).collect()
            }
            Program::Argv { .. } => Vec::new(),
        },
    }
}

pub(super) fn secrets_to_wire(secrets: &[Secret]) -> Vec<v1::Secret> {
    let secret = |secret: &Secret| v1::Secret { name: secret.name.clone(), value: secret.value.clone() };
    secrets.iter().map(secret).collect()
}

fn stage_of(script: &str, stage: &StageText) -> v1::PipelineStage {
    let text = &script[stage.text.clone()];
    let command = text[..text.floor_char_boundary(limits::MAX_STAGE_COMMAND_BYTES)].to_owned();
    v1::PipelineStage { command, next: stage.next.unwrap_or(0) as u32 }
}

fn resource_limits(limits: ResourceLimits) -> v1::ResourceLimits {
    v1::ResourceLimits {
        cpu_ms: limits.cpu.map_or(0, |cpu| cpu.as_millis() as u64),
        processes: limits.processes.unwrap_or(0),
        output_bytes: limits.output_bytes.unwrap_or(0),
        loop_iterations: limits.loop_iterations.unwrap_or(0),
    }
}

fn exceeded(wire: &v1::Ended) -> Option<Exceeded> {
    let limit = match wire.exceeded_limit() {
        v1::ResourceLimit::CpuMs => ResourceLimit::Cpu,
        v1::ResourceLimit::Processes => ResourceLimit::Processes,
        v1::ResourceLimit::OutputBytes => ResourceLimit::Output,
        v1::ResourceLimit::LoopIterations => ResourceLimit::LoopIterations,
        v1::ResourceLimit::Unspecified => return None,
    };
    Some(Exceeded { limit, value: wire.exceeded_value })
}

/// Returns a refused write. The path is cut, because the agent is not trusted to keep it short.
fn read_only_violation(wire: &v1::ReadOnlyViolation) -> Option<ReadOnlyViolation> {
    let operation = match wire.operation() {
        v1::WriteOperation::Write => WriteOperation::Write,
        v1::WriteOperation::Create => WriteOperation::Create,
        v1::WriteOperation::Delete => WriteOperation::Delete,
        v1::WriteOperation::Rename => WriteOperation::Rename,
        v1::WriteOperation::Link => WriteOperation::Link,
        v1::WriteOperation::Unspecified => return None,
    };
    let end = wire.path.floor_char_boundary(limits::MAX_PATH_BYTES);
    Some(ReadOnlyViolation { operation, path: wire.path[..end].to_owned() })
}

fn events(stream: Streaming<v1::CommandEvent>) -> EventStream {
    stream
        .map(|event| {
            let event = event?.event.ok_or(Error::Malformed { missing: "event" })?;
            Ok(match event {
                command_event::Event::Started(wire) => Event::Started(started(&wire)),
                command_event::Event::Output(output) => {
                    Event::Output(output.records.into_iter().map(record).collect())
                }
                command_event::Event::Gap(gap) => {
                    Event::Gap { dropped_bytes: gap.dropped_bytes, next_seq: gap.next_seq }
                }
                command_event::Event::Ended(wire) => Event::Ended { ended: ended(&wire)?, checkpoint: None },
            })
        })
        .boxed()
}

fn record(wire: v1::Record) -> command::Record {
    let stream = match wire.stream() {
        v1::Stream::Stage => return stage_record(wire.seq, &wire.data),
        v1::Stream::Stderr => command::Stream::Stderr,
        v1::Stream::Trace => command::Stream::Trace,
        v1::Stream::Stdout | v1::Stream::Unspecified => command::Stream::Stdout,
    };
    command::Record { seq: wire.seq, stream, data: wire.data, stage: None }
}

/// A report that cannot be decoded is one without content.
fn stage_record(seq: u64, report: &[u8]) -> command::Record {
    let mut report = v1::StageReport::decode(report).unwrap_or_default();
    report.command.truncate(report.command.floor_char_boundary(limits::MAX_STAGE_COMMAND_BYTES));
    let v1::StageReport { command, exit_code, output, output_bytes } = report;
    let stage = Some(Box::new(StageEnd { command, exit_code, output_bytes }));
    command::Record { seq, stream: command::Stream::Stage, data: output, stage }
}

fn status_of(wire: v1::CommandStatus) -> Result<CommandStatus, Error> {
    Ok(CommandStatus {
        started: started(&wire.started.ok_or(Error::Malformed { missing: "started" })?),
        ended: wire.ended.as_ref().map(ended).transpose()?,
        argv: wire.argv,
        cwd: wire.cwd,
        stdout_bytes: wire.stdout_bytes,
        stderr_bytes: wire.stderr_bytes,
        dropped_bytes: wire.dropped_bytes,
    })
}

fn known(wire: v1::KnownCommand) -> Option<KnownCommand> {
    let mut status = wire.status?;
    let id = status.started.as_ref()?.command_id.parse().ok()?;
    status.cwd.truncate(status.cwd.floor_char_boundary(limits::MAX_PATH_BYTES));
    let digest = RequestDigest::from_bytes(&wire.request_digest);
    Some(KnownCommand { number: wire.number, id, digest, status: status_of(status).ok()? })
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
        v1::EndReason::Unspecified => return Err(Error::Malformed { missing: "reason" }),
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
        output_file: wire
            .output_file
            .map(|file| OutputFile { bytes: file.bytes, is_complete: file.complete }),
        exceeded: exceeded(wire),
        read_only_violation: wire.read_only_violation.as_ref().and_then(read_only_violation),
        denials: None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::io::AsyncWriteExt;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{link, pair};
    use sandboxd_model::{LimitProfile, Secret, pipeline};

    #[tokio::test]
    async fn an_agent_that_would_ignore_a_required_field_is_not_called() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        theirs.write_all(b"sandbox-agent 2 right\n").await.unwrap();
        let (link, driver) = link::open(ours, "right", CancellationToken::new()).await.unwrap();
        let _driver = tokio::spawn(driver);
        let (agent, owner) = pair();
        owner.link.send_replace(Some(link));
        let plain = CommandSpec {
            id: "cmd_0123456789abcdef".parse().unwrap(),
            digest: None,
            program: Program::Script("true".into()),
            cwd: String::new(),
            env: HashMap::new(),
            stdin: None,
            open_stdin: false,
            read_only: false,
            timeout: Duration::from_secs(1),
            detached: false,
            passive: false,
            output_file_after: None,
            debug: false,
            secrets: Vec::new(),
            stages: None,
            resource_limits: ResourceLimits::default(),
        };
        let limited = CommandSpec { resource_limits: LimitProfile::Strict.resources(true), ..plain.clone() };
        let read_only = CommandSpec { read_only: true, ..plain.clone() };
        let open_stdin = CommandSpec { open_stdin: true, ..plain.clone() };
        let debug = CommandSpec { debug: true, ..plain.clone() };
        let secret = Secret { name: "KEY".into(), value: "value".into() };
        let secrets = CommandSpec { secrets: vec![secret], ..plain.clone() };
        let stages = pipeline::last_pipeline("a | b").ok();
        let stages = CommandSpec { program: Program::Script("a | b".into()), stages, ..plain.clone() };
        for spec in [read_only, open_stdin, debug, secrets, limited, stages] {
            assert!(matches!(agent.start(&spec).await, Err(Error::Outdated)));
            assert!(matches!(agent.run(&spec, ReaderId::next()).await.map(drop), Err(Error::Outdated)));
        }
        // The agent receives the other calls, and answers them in its own time.
        let answer = timeout(limits::RECHECK, agent.start(&plain)).await;
        assert!(answer.is_err(), "{answer:?}");
    }
}
