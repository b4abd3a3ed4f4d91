//! Sandboxes of sandboxd.

mod checkpoints;
mod commands;
mod files;
mod interpreters;
mod repositories;
mod status;
mod subjects;
mod terminals;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use sandbox_api::sandbox::{Checkpoints, CreateSandbox, ListSandboxes, Network, Resources, Sandbox};
use sandbox_api::{ErrorCode, IdError};
use sandbox_client::{Client, upload_stream};
use tokio::sync::Mutex;
use tokio::time::timeout;

use self::subjects::Subjects;
use super::{
    CheckpointId, Command, CommandId, Content, Denial, Download, Error, FileList, FilePart, Interpreters,
    NetworkMode, NetworkPolicy, Opened, OpenedWith, Provider, Repository, Result, Running, SandboxId, Status,
    Terminals,
};
use crate::chat_key::ChatKey;
use crate::subject::Subject;

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
    subjects: Subjects,
    options: DockerOptions,
    /// Held from reading a sandbox's list of hosts until the new list is written, so that no entry is lost.
    lists: Arc<Mutex<()>>,
}

impl Docker {
    /// Creates a provider. Sends nothing yet. A chat of a subject uses a child token of the client's token, which must
    /// permit that.
    pub fn new(client: Client, options: DockerOptions) -> Self {
        Self { subjects: Subjects::new(client), options, lists: Arc::default() }
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
    async fn add_hosts(&self, sandbox: &SandboxId, hosts: &[String]) -> Result<NetworkPolicy> {
        let _lists = self.lists.lock().await;
        let now = status::network(self.get(sandbox).await?.network);
        let Some(allow) = now.with(hosts) else { return Ok(now) };
        let request = &Network { mode: None, allow: Some(allow) };
        let id = &id(sandbox)?;
        let change = |client: Client| async move { client.change_network(id, request).await };
        self.subjects.call(sandbox.subject(), change).await.map(status::network).map_err(fault)
    }

    /// Adds the hosts of the settings.
    async fn add_own_hosts(&self, opened: &Opened) -> Result<()> {
        if !self.options.network.allow.is_empty() {
            self.add_hosts(&opened.sandbox, &self.options.network.allow).await?;
        }
        Ok(())
    }

    /// Creates the session's sandbox, or finds it.
    async fn create(&self, key: &ChatKey, request: &CreateSandbox) -> Result<Opened> {
        let create = |client: Client| async move { client.create_or_reconnect(request).await };
        let made = self.subjects.call(key.subject(), create).await.map_err(fault)?;
        Ok(Opened { sandbox: of_key(made.sandbox_id, key), is_new: made.created })
    }

    async fn get(&self, sandbox: &SandboxId) -> Result<Sandbox> {
        let id = &id(sandbox)?;
        let get = |client: Client| async move { client.get(id).await };
        self.subjects.call(sandbox.subject(), get).await.map_err(fault)
    }
}

#[async_trait]
impl Provider for Docker {
    async fn open(&self, key: &ChatKey) -> Result<Opened> {
        let opened = self.create(key, &self.create_request(key)).await?;
        self.add_own_hosts(&opened).await?;
        Ok(opened)
    }

    async fn open_with(&self, key: &ChatKey, repository: &Repository) -> Result<OpenedWith> {
        self.create_with(key, repository).await
    }

    fn interpreters(&self) -> Option<&dyn Interpreters> {
        Some(self)
    }

    fn terminals(&self) -> Option<&dyn Terminals> {
        Some(self)
    }

    async fn find(&self, key: &ChatKey) -> Result<Option<SandboxId>> {
        let subject = key.subject().map(Subject::as_str);
        let mut which =
            ListSandboxes { session_key: Some(key.as_str().to_owned()), ..ListSandboxes::default() };
        loop {
            let page = &which;
            let list = |client: Client| async move { client.list(page).await };
            let found = self.subjects.call(key.subject(), list).await.map_err(fault)?;
            // A token without a subject sees those of all subjects, and anyone may choose the same key.
            let mut found_of =
                found.sandboxes.into_iter().filter(|found| found.subject.as_deref() == subject);
            match (found_of.next(), found.next_cursor) {
                (None, Some(next)) => which.cursor = Some(next),
                (found, _) => return Ok(found.map(|sandbox| of_key(sandbox.sandbox_id, key))),
            }
        }
    }

    async fn run(&self, sandbox: &SandboxId, command: Command) -> Result<Running> {
        self.run_command(sandbox, command).await
    }

    async fn follow(&self, sandbox: &SandboxId, command: &CommandId) -> Result<Option<Running>> {
        self.follow_command(sandbox, command).await
    }

    async fn read_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<FilePart> {
        self.read_part(sandbox, path, offset, max_bytes).await
    }

    async fn write_file(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()> {
        self.write_whole(sandbox, path, content).await
    }

    async fn replace_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        was: &FilePart,
        content: Bytes,
    ) -> Result<()> {
        self.replace_whole(sandbox, path, was, content).await
    }

    async fn list_files(&self, sandbox: &SandboxId, path: &str, cursor: Option<&str>) -> Result<FileList> {
        self.list_page(sandbox, path, cursor).await
    }

    async fn download(&self, sandbox: &SandboxId, path: &str) -> Result<Download> {
        self.open_file(sandbox, path).await
    }

    async fn upload(&self, sandbox: &SandboxId, path: &str, _bytes: u64, content: Content) -> Result<()> {
        self.write_stream(sandbox, path, content).await
    }

    async fn remove_file(&self, sandbox: &SandboxId, path: &str) -> Result<()> {
        self.remove_all(sandbox, path).await
    }

    async fn unpack(&self, sandbox: &SandboxId, archive: Content) -> Result<()> {
        let id = &id(sandbox)?;
        let unpack =
            |client: Client| async move { client.unpack_files(id, "", upload_stream(archive)).await };
        let unpack = self.subjects.call_once(sandbox.subject(), unpack);
        within(UNPACK, unpack).await?.map(drop).map_err(fault)
    }

    async fn url(&self, sandbox: &SandboxId, port: u16) -> Result<String> {
        let id = &id(sandbox)?;
        let find = |client: Client| async move { client.find_port(id, port).await };
        let found = self.subjects.call(sandbox.subject(), find).await.map_err(fault)?;
        found.url.ok_or_else(|| Error::Refused {
            message: format!("port {port} of the sandbox cannot be reached"),
        })
    }

    async fn status(&self, sandbox: &SandboxId) -> Result<Status> {
        let reported = self.get(sandbox).await?;
        Ok(Status { sandbox: sandbox.clone(), ..status::of(reported) })
    }

    async fn denials(&self, sandbox: &SandboxId) -> Result<Option<Vec<Denial>>> {
        let id = &id(sandbox)?;
        let denials = |client: Client| async move { client.denials(id).await };
        let reported = self.subjects.call(sandbox.subject(), denials).await.map_err(fault)?;
        Ok(Some(reported.denials))
    }

    async fn allow_host(&self, sandbox: &SandboxId, host: &str) -> Result<NetworkPolicy> {
        let mode = status::network(self.get(sandbox).await?.network).mode;
        if mode != NetworkMode::Allowlist {
            let message = format!(
                "{host} cannot be allowed: the sandbox's network mode is `{}`, which has no list",
                mode.as_str()
            );
            return Err(Error::Refused { message });
        }
        self.add_hosts(sandbox, &[host.to_owned()]).await
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
        let id = &id(sandbox)?;
        let park = |client: Client| async move { client.park(id, false).await };
        match self.subjects.call(sandbox.subject(), park).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::WrongState) => {
                Err(Error::Busy { message: message_of(&error) })
            }
            Err(error) => Err(fault(error)),
        }
    }

    async fn release(&self, sandbox: &SandboxId) -> Result<()> {
        let seen = self.get(sandbox).await?.last_active_at;
        // A server in it is being viewed, or another app uses it. sandboxd parks it when it is idle.
        if Timestamp::now().duration_since(seen).unsigned_abs() < IN_USE {
            return Ok(());
        }
        let id = &id(sandbox)?;
        let park = |client: Client| async move { client.park(id, false).await };
        self.subjects.call(sandbox.subject(), park).await.map(drop).map_err(fault)
    }

    async fn delete(&self, sandbox: &SandboxId) -> Result<()> {
        let id = &id(sandbox)?;
        let delete = |client: Client| async move { client.delete(id).await };
        self.subjects.call(sandbox.subject(), delete).await.map(drop).map_err(fault)
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

/// The sandbox of a chat, which belongs to the chat's subject.
fn of_key(sandbox: sandbox_api::SandboxId, key: &ChatKey) -> SandboxId {
    SandboxId::from(sandbox.as_str().to_owned()).of_subject(key.subject())
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
        | ErrorCode::RepoNotFound
        | ErrorCode::VersionNotFound
        | ErrorCode::TagNotFound
        | ErrorCode::PackageNotFound
        | ErrorCode::NoWheel
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
