//! Every decision: which sandbox a session has, what runs in it, what is rejected and why.
//!
//! The service consists of components. Each owns its state, lives in a folder and is used through its methods only.
//! [`Service`] creates them and runs what involves several of them: the start and the periodic upkeep.
//!
//! A component uses only components above it in this list:
//!
//! - `audit`: the record of security-relevant acts
//! - `ownership`: whether the engine is ours and this daemon is its newest owner
//! - `storage`: the workspaces' disks, their quota and the free space
//! - `history`: which commands ran and how they ended
//! - `egress`: the sandboxes' outbound connections
//! - `quotas`: what projects may use and what they use
//! - `lifecycle`: sandboxes, from create to delete
//! - `values`: what clients keep with a sandbox by key
//! - `commands`, `terminals`, `files`, `downloads`, `previews`, `mcp_servers`: what runs in a sandbox, and how it is
//!   reached
//! - `snapshots`: the files of a sandbox at one time
//! - `repositories`: repositories that were fetched, and sandboxes with their files
//! - `packages`: Python packages that were resolved, for sandboxes and contexts
//! - `projects`: projects and their tokens

mod access;
mod audit;
mod authorized;
mod clock;
mod commands;
mod context;
mod contexts;
mod downloads;
mod egress;
mod error;
mod files;
mod history;
mod lifecycle;
mod mcp_servers;
mod ownership;
mod packages;
mod previews;
mod projects;
mod quotas;
mod repositories;
mod run_to_end;
mod setup;
mod snapshots;
mod start;
mod storage;
mod tasks;
mod terminals;
mod upkeep;
mod values;

use std::sync::Arc;

use sandbox_api::TokenId;
use sandbox_api::sandbox::SandboxState;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::warn;

pub use self::access::Access;
pub use self::audit::{Audit, AuditFilter, AuditLine, AuditPage, Recorder};
pub use self::authorized::{Authorized, ByOperator, Recorded};
pub use self::commands::{BatchOrder, CommandOutput, CommandResult, CommandStream, Commands};
pub use self::contexts::{Contexts, RunStream};
pub use self::downloads::{DownloadPermit, Downloads};
pub use self::egress::{Allowed, Denial, DenialEvent, DenialStream};
pub use self::error::{
    BaseFault, Error, McpServerError, OwnershipError, PackageError, QuotaError, RepositoryError,
    SnapshotError, SpecError, StdinError,
};
pub use self::files::{FileStream, Files, SecretValues, UploadFailed};
pub use self::lifecycle::{
    Changes, Lifecycle, OrphanView, Readiness, Reconnected, SandboxUsage, SandboxView, Selection,
};
pub use self::mcp_servers::{McpServerView, McpServers};
pub use self::packages::Packages;
pub use self::previews::{
    Link, LinkListener, LinkRequest, PreviewActivity, PreviewUse, Previews, Tunnel, carry,
};
pub use self::projects::{Connections, NewChild, NewToken, Projects, random_text};
pub use self::quotas::{QuotaUse, Quotas, UsageReport};
pub use self::repositories::{Opened, Repositories, RepositoryFiles, RepositoryRequest};
pub use self::setup::Setup;
pub use self::snapshots::{
    ChangeKind, ChangeOptions, ChangePage, CheckMode, CheckReport, Diff, FileChange, ImportFailed,
    ImportOptions, NewSnapshot, Omitted, PackFault, PackProblem, RestoreDone, SnapshotFile, SnapshotOptions,
    Snapshots,
};
pub use self::terminals::{TerminalHandle, TerminalView, Terminals};
pub use self::values::Values;

use self::context::Context;
use self::egress::Egress;
use self::history::History;
use self::ownership::Ownership;
use self::storage::Storage;
use self::tasks::Tasks;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::model::preview::LinkRecord;
use crate::model::{Instance, Limits, Owner, Principal, ProjectName, Subject, limits};
use crate::store::Store;

/// The daemon without its HTTP listeners.
#[derive(Debug)]
pub struct Service {
    context: Context,
    audit: Arc<Audit>,
    ownership: Arc<Ownership>,
    storage: Arc<Storage>,
    history: Arc<History>,
    lifecycle: Arc<Lifecycle>,
    commands: Arc<Commands>,
    contexts: Arc<Contexts>,
    terminals: Terminals,
    files: Arc<Files>,
    downloads: Downloads,
    previews: Arc<Previews>,
    mcp_servers: Arc<McpServers>,
    snapshots: Arc<Snapshots>,
    repositories: Arc<Repositories>,
    packages: Arc<Packages>,
    projects: Projects,
    quotas: Arc<Quotas>,
    values: Arc<Values>,
}

impl Service {
    /// Creates a service. It serves requests after [`Self::prepare`].
    pub async fn new(
        engine: Engine,
        store: Store,
        metrics: Arc<Metrics>,
        instance: Arc<Instance>,
        setup: Setup,
        tasks: TaskTracker,
    ) -> Result<Arc<Self>, Error> {
        let context = Context {
            metrics,
            tasks: Tasks::new(tasks),
            setup: Arc::new(setup),
            store: Arc::new(store),
            engine,
            instance,
        };
        let audit = Arc::new(Audit::new(&context).await?);
        let ownership = Arc::new(Ownership::new(&context));
        let storage = Arc::new(Storage::new(&context, &ownership));
        let history = Arc::new(History::new(&context));
        let egress = Arc::new(Egress::new(&context, &audit));
        // First, because quotas belong to projects.
        let projects = Projects::new(&context).await?;
        let quotas = Arc::new(Quotas::new(&context).await?);
        let lifecycle =
            Lifecycle::new(&context, &audit, &ownership, &storage, &history, &egress, &quotas).await?;
        let lifecycle = Arc::new(lifecycle);
        let snapshots = Arc::new(Snapshots::new(&context, &audit, &lifecycle, &storage, &quotas).await?);
        let park_checkpoints = Arc::downgrade(&snapshots);
        lifecycle.set_park_checkpoints(park_checkpoints);
        let commands = Arc::new(Commands::new(&context, &lifecycle, &history, &snapshots, &quotas));
        let files = Arc::new(Files::new(&lifecycle, &storage, &snapshots));
        let repositories = Arc::new(Repositories::new(&context, &egress, &lifecycle, &snapshots).await?);
        let packages = Arc::new(Packages::new(&context, &egress, &lifecycle, &snapshots).await?);
        let previews = Previews::new(&context, &audit, &lifecycle, &egress, &quotas);
        Ok(Arc::new(Self {
            contexts: Arc::new(Contexts::new(&lifecycle, &history, &snapshots, &quotas)),
            terminals: Terminals::new(&lifecycle),
            downloads: Downloads::new(&context, &audit, &lifecycle, &files),
            values: Arc::new(Values::new(&context, &lifecycle, &quotas)),
            projects,
            repositories,
            packages,
            quotas,
            files,
            mcp_servers: Arc::new(McpServers::new(&context, &lifecycle)),
            snapshots,
            context,
            audit,
            ownership,
            storage,
            history,
            lifecycle,
            commands,
            previews,
        }))
    }

    /// The record of security-relevant acts.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.audit
    }

    /// Sandboxes, from create to delete.
    pub fn sandboxes(&self) -> &Arc<Lifecycle> {
        &self.lifecycle
    }

    /// Commands in sandboxes.
    pub fn commands(&self) -> &Arc<Commands> {
        &self.commands
    }

    /// Contexts in sandboxes.
    pub fn contexts(&self) -> &Arc<Contexts> {
        &self.contexts
    }

    /// Terminals in sandboxes.
    pub fn terminals(&self) -> &Terminals {
        &self.terminals
    }

    /// Files of sandboxes.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Values that are kept with sandboxes.
    pub fn values(&self) -> &Arc<Values> {
        &self.values
    }

    /// Links that download files.
    pub fn downloads(&self) -> &Downloads {
        &self.downloads
    }

    /// Ports of sandboxes, links to them and ports that are published on the host.
    pub fn previews(&self) -> &Arc<Previews> {
        &self.previews
    }

    /// Wrapped servers of sandboxes.
    pub fn mcp_servers(&self) -> &Arc<McpServers> {
        &self.mcp_servers
    }

    /// Snapshots of sandboxes.
    pub fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// Repositories that were fetched.
    pub fn repositories(&self) -> &Arc<Repositories> {
        &self.repositories
    }

    /// Python packages that were resolved.
    pub fn packages(&self) -> &Arc<Packages> {
        &self.packages
    }

    /// Projects and their tokens.
    pub fn projects(&self) -> &Projects {
        &self.projects
    }

    /// What projects may use and what they use.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Revokes a token, and ends the links that it has made.
    async fn revoke_token(
        &self,
        project: &Authorized<ProjectName>,
        by: &Principal,
        id: &TokenId,
    ) -> Result<(), Error> {
        let revoked = self.projects.revoke_token(project, by, id).await;
        // Also if the store cannot be written: the token is not valid any more.
        self.end_links_of_tokens().await;
        revoked
    }

    /// Revokes the JSON Web Tokens and the child tokens of a subject, and ends the links to its sandboxes.
    async fn revoke_subject(
        &self,
        project: &Authorized<ProjectName>,
        by: &Principal,
        subject: Subject,
    ) -> Result<(), Error> {
        let revoked = self.projects.revoke_subject(project, by, subject).await;
        // Also if the store cannot be written: the tokens are not valid any more.
        self.end_links_of_tokens().await;
        revoked
    }

    /// Ends the links of tokens and subjects that were revoked.
    async fn end_links_of_tokens(&self) {
        let stays = |link: &LinkRecord, owner: Option<&Owner>| {
            let is_revoked = link.token.as_ref().is_some_and(|token| !self.projects.is_valid(token));
            !is_revoked && !owner.is_some_and(|owner| self.projects.has_ended(owner, link.created_at_ms))
        };
        self.previews.end_links_unless(stays).await;
    }

    /// Bounds that the operator sets.
    pub fn limits(&self) -> Limits {
        self.context.setup.limits
    }

    /// Begins the stop. From now on a client that disconnects does not end its command, because the daemon itself is
    /// leaving.
    pub fn stop(&self) {
        self.context.tasks.stop();
    }

    /// Writes the state that only memory holds and closes the store. The last step of a stop.
    pub async fn close(&self) {
        self.context.tasks.close();
        if self.check_engine().is_ok()
            && timeout(limits::EMPTY_POOL, self.lifecycle.empty_pool()).await.is_err()
        {
            warn!("the engine does not answer; the next start removes sandboxes that wait for a session");
        }
        // If a newer daemon owns the engine, the helper is its own, and this daemon has no disks to close.
        if timeout(limits::CLOSE_DISKS, self.storage.close()).await.is_err() {
            warn!("the engine does not answer; the disks' helper ends by itself");
        }
        self.lifecycle.flush().await;
        self.audit.close().await;
        if let Err(error) = self.quotas.write_usage().await {
            warn!(error = &error as &dyn std::error::Error, "could not write what projects have used");
        }
        self.context.store.close().await;
    }

    /// Whether the store can be written now.
    pub async fn check_store(&self) -> Result<(), Error> {
        Ok(self.context.store.check().await?)
    }

    /// Whether the engine is known to be ours, as of the last check.
    pub fn check_engine(&self) -> Result<(), Error> {
        self.ownership.check()
    }

    /// Whether writes to workspaces are rejected because the engine's disk is nearly full.
    pub fn is_space_short(&self) -> bool {
        self.storage.is_space_short()
    }

    /// Asks the engine for its version.
    pub async fn engine_version(&self) -> Result<String, Error> {
        Ok(self.context.engine.version().await?)
    }

    /// The daemon's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }

    /// The daemon's counters, after an update of those that are counted elsewhere.
    pub fn fresh_metrics(&self) -> &Metrics {
        self.context.metrics.set_history_dropped(self.history.dropped());
        self.context.metrics.set_checkpoints_pending(self.lifecycle.lacking_checkpoints().len());
        self.context.metrics.set_pool(self.lifecycle.waiting());
        if let Some(space) = self.storage.space() {
            self.context.metrics.set_disk_room(space.free_bytes, space.total_bytes);
        }
        &self.context.metrics
    }

    /// The state of every sandbox.
    pub fn states(&self) -> Vec<SandboxState> {
        self.lifecycle.states()
    }
}
