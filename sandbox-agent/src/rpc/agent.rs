//! Commands and the agent itself: decode, call, encode.

use std::sync::Arc;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::v1::agent_server::Agent;
use agent_protocol::{GENERATION, v1};
use futures::StreamExt;
use rustix::process::Signal;
use tonic::{Request, Response, Streaming};

use super::service::{Events, Reply, Service};
use super::stdin;
use crate::commands::{OutputMode, StartedCommand};
use crate::follow::{Reader, without_output};
use crate::registry::Known;
use crate::termination;

#[tonic::async_trait]
impl Agent for Service {
    type RunStream = Events<v1::CommandEvent>;
    type AttachStream = Events<v1::CommandEvent>;
    type WriteStdinStream = Events<v1::StdinProgress>;

    async fn info(&self, _: Request<v1::InfoRequest>) -> Reply<v1::InfoReply> {
        Ok(Response::new(v1::InfoReply {
            generation: GENERATION,
            version: env!("CARGO_PKG_VERSION").into(),
            resident_bytes: resident_bytes().unwrap_or(0),
            running_commands: self.commands.running() as u32,
            busy_terminals: self.terminals.busy() as u32,
            disk_used_bytes: self.files.disk_used_bytes(),
        }))
    }

    async fn start(&self, request: Request<v1::StartRequest>) -> Reply<v1::Started> {
        let started =
            self.commands.start(request.into_inner(), OutputMode::Later).await.map_err(to_status)?;
        Ok(Response::new(match started {
            StartedCommand::Kept { command, .. } => command.started_event(),
            StartedCommand::Remembered(remembered) => remembered.status.started.unwrap_or_default(),
        }))
    }

    async fn run(&self, request: Request<v1::StartRequest>) -> Reply<Self::RunStream> {
        let started =
            self.commands.start(request.into_inner(), OutputMode::Streamed).await.map_err(to_status)?;
        Ok(Response::new(match started {
            StartedCommand::Kept { command, position } => Reader::of_run(command, position).events().boxed(),
            StartedCommand::Remembered(remembered) => without_output(remembered.status).boxed(),
        }))
    }

    async fn attach(&self, request: Request<v1::AttachRequest>) -> Reply<Self::AttachStream> {
        let v1::AttachRequest { command_id, after_seq, follow, reader } = request.into_inner();
        let command = self.commands.get(&command_id).map_err(to_status)?;
        Ok(Response::new(Reader::of_attach(command, after_seq, follow, reader).events().boxed()))
    }

    async fn reader_left(&self, request: Request<v1::ReaderLeftRequest>) -> Reply<v1::ReaderLeftReply> {
        let v1::ReaderLeftRequest { command_id, reader, comes_back } = request.into_inner();
        self.commands.get(&command_id).map_err(to_status)?.reader_left(reader, comes_back);
        Ok(Response::new(v1::ReaderLeftReply {}))
    }

    async fn wait(&self, request: Request<v1::CommandRef>) -> Reply<v1::Ended> {
        let known = self.commands.find(&request.into_inner().command_id).map_err(to_status)?;
        Ok(Response::new(match known {
            Known::Kept(command) => command.ended().await,
            Known::Remembered(remembered) => remembered.status.ended.unwrap_or_default(),
        }))
    }

    async fn inspect(&self, request: Request<v1::CommandRef>) -> Reply<v1::CommandStatus> {
        let known = self.commands.find(&request.into_inner().command_id).map_err(to_status)?;
        Ok(Response::new(known.status()))
    }

    async fn list_commands(&self, request: Request<v1::ListCommandsRequest>) -> Reply<v1::ListCommandsReply> {
        let v1::ListCommandsRequest { recorded, after } = request.into_inner();
        Ok(Response::new(self.commands.unrecorded(&recorded.into_iter().collect(), after)))
    }

    async fn signal(&self, request: Request<v1::SignalRequest>) -> Reply<v1::SignalReply> {
        let v1::SignalRequest { command_id, signal, until_gone } = request.into_inner();
        let command = self.commands.get(&command_id).map_err(to_status)?;
        let signal = Signal::from_named_raw(signal).ok_or_else(|| {
            to_status(Kind::FieldInvalid(v1::FieldInvalid {
                field: "signal".into(),
                problem: "is not a signal's number".into(),
            }))
        })?;
        let already_ended = command.end_now().is_some();
        let swept = match (already_ended, until_gone) {
            // The end is recorded, but processes that the command left behind can still be ended.
            (true, true) => {
                termination::end(command.as_ref(), signal).await == termination::Reach::WholeSandbox
            }
            (false, true) => {
                command.request_end(signal);
                command.ended().await.swept
            }
            (true, false) => false,
            (false, false) => {
                termination::signal_members(termination::Target::owner(command.as_ref()), signal);
                false
            }
        };
        Ok(Response::new(v1::SignalReply { already_ended, swept }))
    }

    async fn write_stdin(&self, request: Request<Streaming<v1::StdinPart>>) -> Reply<Self::WriteStdinStream> {
        Ok(Response::new(stdin::progress(Arc::clone(&self.commands), request.into_inner()).boxed()))
    }

    async fn shutdown(&self, _: Request<v1::ShutdownRequest>) -> Reply<v1::ShutdownReply> {
        self.shutdown.notify_one();
        Ok(Response::new(v1::ShutdownReply {}))
    }
}

/// Returns the agent's own resident memory: the second number of /proc/self/statm, in pages (proc_pid_statm(5)).
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
