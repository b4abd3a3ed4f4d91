//! Sandboxes of sandboxd.

mod checkpoints;
mod files;
mod status;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use jiff::Timestamp;
use sandbox_api::command::{Output, Record, StartCommand};
use sandbox_api::sandbox::{Checkpoints, CreateSandbox, ListSandboxes, Network, Resources, StringMap};
use sandbox_api::{ErrorCode, IdError};
use sandbox_client::{Client, upload_stream};
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

use super::{
    CheckpointId, Command, Content, Denial, Download, End, Error, Event, FileList, FilePart, NetworkMode,
    NetworkPolicy, Opened, Provider, Result, Running, SandboxId, Status,
};
use crate::chat_key::ChatKey;

/// Deadline for unpacking an archive, which may use a slow connection.
const UNPACK: Duration = Duration::from_secs(15 * 60);

/// A sandbox used this recently is not parked to make room.
const IN_USE: Duration = Duration::from_secs(30);

/// Options of new sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerOptions {
    /// `node24` or `python3.13`.
    pub runtime: String,
    /// Idle time, 10 s to 6 h.
    pub idle_ttl: Duration,
    /// Number of processors, 1 to 8.
    pub vcpus: u64,
    /// Memory in MiB, 256 to 16384.
    pub memory_mb: u64,
    /// Network policy.
    pub network: NetworkPolicy,
    /// Ports that previews may expose, up to 4.
    pub ports: Vec<u16>,
    /// Number of checkpoints that are kept of each sandbox, 1 to 1000. One is made after each command and each change of
    /// files. `None` means no checkpoints.
    pub checkpoints: Option<u32>,
}

/// Sandboxes of one sandboxd.
#[derive(Debug, Clone)]
pub struct Docker {
    client: Client,
    options: DockerOptions,
    /// Held from reading a sandbox's list of hosts until the new list is written, so that no entry is lost.
    lists: Arc<Mutex<()>>,
}

impl Docker {
    /// Creates a provider. Sends nothing yet.
    pub fn new(client: Client, options: DockerOptions) -> Self {
        Self { client, options, lists: Arc::default() }
    }

    fn create_request(&self, key: &ChatKey) -> CreateSandbox {
        let DockerOptions { runtime, idle_ttl, vcpus, memory_mb, network, ports, checkpoints } =
            &self.options;
        let mode = network.mode.as_str();
        CreateSandbox {
            session_key: key.as_str().to_owned(),
            runtime: Some(runtime.clone()),
            idle_ttl_ms: Some(u64::try_from(idle_ttl.as_millis()).unwrap_or(u64::MAX)),
            resources: Some(Resources {
                vcpus: Some(*vcpus),
                memory_mb: Some(*memory_mb),
                ..Resources::default()
            }),
            // Hosts are added afterwards, because an existing sandbox may have more hosts than the settings.
            network: Some(Network { mode: Some(mode.to_owned()), allow: None }),
            ports: Some(ports.iter().copied().map(u32::from).collect()),
            checkpoints: checkpoints.map(|keep| Checkpoints {
                after_command: Some(true),
                every_ms: None,
                keep: Some(keep),
            }),
            ..CreateSandbox::default()
        }
    }

    /// Adds hosts that the sandbox's list does not have.
    async fn add_hosts(&self, sandbox: &sandbox_api::SandboxId, hosts: &[String]) -> Result<NetworkPolicy> {
        let _lists = self.lists.lock().await;
        let now = status::network(self.client.get(sandbox).await.map_err(fault)?.network);
        let Some(allow) = now.with(hosts) else { return Ok(now) };
        let request = Network { mode: None, allow: Some(allow) };
        self.client.change_network(sandbox, &request).await.map(status::network).map_err(fault)
    }
}

#[async_trait]
impl Provider for Docker {
    async fn open(&self, key: &ChatKey) -> Result<Opened> {
        let made = self.client.create_or_reconnect(&self.create_request(key)).await.map_err(fault)?;
        if !self.options.network.allow.is_empty() {
            self.add_hosts(&made.sandbox_id, &self.options.network.allow).await?;
        }
        Ok(Opened { sandbox: made.sandbox_id.as_str().to_owned().into(), is_new: made.created })
    }

    async fn find(&self, key: &ChatKey) -> Result<Option<SandboxId>> {
        let which = ListSandboxes { session_key: Some(key.as_str().to_owned()), ..ListSandboxes::default() };
        let found = self.client.list(&which).await.map_err(fault)?.sandboxes;
        Ok(found.into_iter().next().map(|sandbox| sandbox.sandbox_id.as_str().to_owned().into()))
    }

    async fn run(&self, sandbox: &SandboxId, command: Command) -> Result<Running> {
        let environment = command.environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment: StringMap = environment.collect();
        let request = StartCommand {
            script: Some(command.script),
            env: Some(environment).filter(|environment| !environment.is_empty()),
            timeout_ms: Some(u64::try_from(command.timeout.as_millis()).unwrap_or(u64::MAX)),
            ..StartCommand::default()
        };
        let (client, sandbox) = (self.client.clone(), id(sandbox)?);
        // Runs in a task, because a start may succeed after the caller has left. Dropping its stream then ends the
        // command.
        let (started, starts) = oneshot::channel();
        tokio::spawn(async move { started.send(client.run(&sandbox, &request).await) });
        let records = starts.await.map_err(|error| Error::Broken(error.into()))?.map_err(fault)?;
        Ok(Running::new(records.map(|record| event(record.map_err(fault)?)).boxed()))
    }

    async fn read_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<FilePart> {
        self.read_part(&id(sandbox)?, path, offset, max_bytes).await
    }

    async fn write_file(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()> {
        self.write_whole(&id(sandbox)?, path, content).await
    }

    async fn replace_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        was: &FilePart,
        content: Bytes,
    ) -> Result<()> {
        self.replace_whole(&id(sandbox)?, path, was, content).await
    }

    async fn list_files(&self, sandbox: &SandboxId, path: &str, cursor: Option<&str>) -> Result<FileList> {
        self.list_page(&id(sandbox)?, path, cursor).await
    }

    async fn download(&self, sandbox: &SandboxId, path: &str) -> Result<Download> {
        self.open_file(&id(sandbox)?, path).await
    }

    async fn upload(&self, sandbox: &SandboxId, path: &str, _bytes: u64, content: Content) -> Result<()> {
        self.write_stream(&id(sandbox)?, path, content).await
    }

    async fn remove_file(&self, sandbox: &SandboxId, path: &str) -> Result<()> {
        self.remove_all(&id(sandbox)?, path).await
    }

    async fn unpack(&self, sandbox: &SandboxId, archive: Content) -> Result<()> {
        let id = id(sandbox)?;
        let unpack = self.client.unpack_files(&id, "", upload_stream(archive));
        within(UNPACK, unpack).await?.map(drop).map_err(fault)
    }

    async fn url(&self, sandbox: &SandboxId, port: u16) -> Result<String> {
        let found = self.client.find_port(&id(sandbox)?, port).await.map_err(fault)?;
        found.url.ok_or_else(|| Error::Refused {
            message: format!("port {port} of the sandbox cannot be reached"),
        })
    }

    async fn status(&self, sandbox: &SandboxId) -> Result<Status> {
        self.client.get(&id(sandbox)?).await.map(status::of).map_err(fault)
    }

    async fn denials(&self, sandbox: &SandboxId) -> Result<Option<Vec<Denial>>> {
        let reported = self.client.denials(&id(sandbox)?).await.map_err(fault)?;
        Ok(Some(reported.denials))
    }

    async fn allow_host(&self, sandbox: &SandboxId, host: &str) -> Result<NetworkPolicy> {
        let id = id(sandbox)?;
        let mode = status::network(self.client.get(&id).await.map_err(fault)?.network).mode;
        if mode != NetworkMode::Allowlist {
            let message = format!(
                "{host} cannot be allowed: the sandbox's network mode is `{}`, which has no list",
                mode.as_str()
            );
            return Err(Error::Refused { message });
        }
        self.add_hosts(&id, &[host.to_owned()]).await
    }

    async fn checkpoint(&self, sandbox: &SandboxId) -> Result<Option<CheckpointId>> {
        self.latest_checkpoint(sandbox).await
    }

    async fn restore(&self, sandbox: &SandboxId, checkpoint: &CheckpointId) -> Result<()> {
        self.restore_checkpoint(sandbox, checkpoint).await
    }

    async fn branch(&self, key: &ChatKey, checkpoint: &CheckpointId) -> Result<SandboxId> {
        self.create_from(key, checkpoint).await
    }

    async fn park(&self, sandbox: &SandboxId) -> Result<()> {
        match self.client.park(&id(sandbox)?, false).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::WrongState) => {
                Err(Error::Busy { message: message_of(&error) })
            }
            Err(error) => Err(fault(error)),
        }
    }

    async fn release(&self, sandbox: &SandboxId) -> Result<()> {
        let id = id(sandbox)?;
        let seen = self.client.get(&id).await.map_err(fault)?.last_active_at;
        // A server in it is being viewed, or another app uses it. sandboxd parks it when it is idle.
        if Timestamp::now().duration_since(seen).unsigned_abs() < IN_USE {
            return Ok(());
        }
        self.client.park(&id, false).await.map(drop).map_err(fault)
    }

    async fn delete(&self, sandbox: &SandboxId) -> Result<()> {
        self.client.delete(&id(sandbox)?).await.map(drop).map_err(fault)
    }
}

/// Adds a deadline. The client has none for transfers of any size.
async fn within<T>(limit: Duration, call: impl Future<Output = T>) -> Result<T> {
    timeout(limit, call).await.map_err(|late| Error::Broken(late.into()))
}

/// A malformed id names no sandbox.
fn id(sandbox: &SandboxId) -> Result<sandbox_api::SandboxId> {
    sandbox.as_str().parse().map_err(|_: IdError| Error::Gone)
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

fn bytes(output: Output) -> Result<Bytes> {
    match output.data_base64 {
        None => Ok(output.data.into()),
        Some(bytes) => {
            BASE64_STANDARD.decode(bytes).map(Bytes::from).map_err(|error| Error::Broken(error.into()))
        }
    }
}

fn message_of(error: &sandbox_client::Error) -> String {
    error.body().map_or_else(|| error.to_string(), |body| body.error.clone())
}

fn fault(error: sandbox_client::Error) -> Error {
    let Some(body) = error.body() else { return Error::Broken(error.into()) };
    let message = body.error.clone();
    match body.code {
        ErrorCode::NotFound if body.details.get("resource").is_some_and(|it| it == "sandbox") => Error::Gone,
        // A limit of the sandbox itself, such as its commands, does not affect other sandboxes.
        ErrorCode::CapacityExhausted if body.details.contains_key("limit") => Error::Busy { message },
        ErrorCode::CapacityExhausted | ErrorCode::RateLimited => Error::Full { message, retry_after: None },
        ErrorCode::Unauthenticated | ErrorCode::Forbidden => Error::Unauthenticated,
        ErrorCode::Unavailable
        | ErrorCode::AuditUnavailable
        | ErrorCode::DeadlineExceeded
        | ErrorCode::Internal => Error::Unavailable { message },
        ErrorCode::InvalidRequest
        | ErrorCode::NotFound
        | ErrorCode::MethodNotAllowed
        | ErrorCode::WrongState
        | ErrorCode::AlreadyExists
        | ErrorCode::PreconditionFailed
        | ErrorCode::TooLarge
        | ErrorCode::UnsupportedMediaType
        | ErrorCode::RangeNotSatisfiable
        | ErrorCode::Refused
        | ErrorCode::InsufficientStorage => Error::Refused { message },
    }
}
