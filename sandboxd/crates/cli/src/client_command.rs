//! The commands that need valid settings, and the function that runs them. Most are clients of the API.

use std::process::ExitCode;

use futures::future::{FutureExt, LocalBoxFuture};
use sandboxd_config::Config;

use crate::accept_engine::{AcceptEngineArgs, accept_engine};
use crate::audit::{AuditArgs, audit};
use crate::cp::{CpArgs, cp};
use crate::diff::{DiffArgs, diff};
use crate::exec::{ExecArgs, exec};
use crate::fsck::{FsckArgs, fsck};
use crate::inspect::{InspectArgs, inspect};
use crate::logs::{LogsArgs, logs};
use crate::mcp_server::{McpArgs, mcp};
use crate::network::{NetworkArgs, network};
use crate::preview::{PreviewArgs, preview};
use crate::project::{ProjectArgs, TokenArgs, WhoAmIArgs, project, token, whoami};
use crate::prune::{PruneArgs, prune};
use crate::ps::{PsArgs, ps};
use crate::repo::{RepoArgs, repo};
use crate::run::{RunArgs, run};
use crate::shell::{ShellArgs, shell};
use crate::snapshot::{ForkArgs, RestoreArgs, SnapshotArgs, fork, restore, snapshot};
use crate::snapshot_file::{ExportArgs, ImportArgs, export, import};
use crate::snapshots::{SnapshotsArgs, snapshots};
use crate::stop::{ParkArgs, StopArgs, park, stop};
use crate::trial::{TryArgs, try_out};

/// A command that needs valid settings. The help lists them in this order.
#[derive(Debug, clap::Subcommand)]
#[expect(
    missing_docs,
    reason = "the documentation of a command is that of its arguments, which its help shows"
)]
pub enum ClientCommand {
    Run(RunArgs),
    Exec(ExecArgs),
    Shell(ShellArgs),
    Try(TryArgs),
    Repo(RepoArgs),
    Cp(CpArgs),
    #[command(visible_aliases = ["ls", "list"])]
    Ps(PsArgs),
    Inspect(InspectArgs),
    Snapshot(SnapshotArgs),
    Snapshots(SnapshotsArgs),
    Restore(RestoreArgs),
    Fork(ForkArgs),
    Diff(DiffArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Fsck(FsckArgs),
    Logs(LogsArgs),
    Preview(PreviewArgs),
    Network(NetworkArgs),
    Mcp(McpArgs),
    #[command(visible_aliases = ["rm", "delete", "remove"])]
    Stop(StopArgs),
    Park(ParkArgs),
    Prune(PruneArgs),
    Project(ProjectArgs),
    Token(TokenArgs),
    #[command(name = "whoami")]
    WhoAmI(WhoAmIArgs),
    Audit(AuditArgs),
    AcceptEngine(AcceptEngineArgs),
}

impl ClientCommand {
    /// Runs the command.
    ///
    /// The future is boxed so that only this crate compiles the commands. The compiler generates the code of an async
    /// function in each crate that polls it.
    pub fn execute(self, config: &Config) -> LocalBoxFuture<'_, anyhow::Result<ExitCode>> {
        match self {
            Self::Run(args) => run(args, config).boxed_local(),
            Self::Exec(args) => exec(args, config).boxed_local(),
            Self::Shell(args) => shell(args, config).boxed_local(),
            Self::Try(args) => try_out(args, config).boxed_local(),
            Self::Repo(args) => repo(args, config).boxed_local(),
            Self::Cp(args) => cp(args, config).boxed_local(),
            Self::Ps(args) => ps(args, config).boxed_local(),
            Self::Inspect(args) => inspect(args, config).boxed_local(),
            Self::Snapshot(args) => snapshot(args, config).boxed_local(),
            Self::Snapshots(args) => snapshots(args, config).boxed_local(),
            Self::Restore(args) => restore(args, config).boxed_local(),
            Self::Fork(args) => fork(args, config).boxed_local(),
            Self::Diff(args) => diff(args, config).boxed_local(),
            Self::Export(args) => export(args, config).boxed_local(),
            Self::Import(args) => import(args, config).boxed_local(),
            Self::Fsck(args) => fsck(args, config).boxed_local(),
            Self::Logs(args) => logs(args, config).boxed_local(),
            Self::Preview(args) => preview(args, config).boxed_local(),
            Self::Network(args) => network(args, config).boxed_local(),
            Self::Mcp(args) => mcp(args, config).boxed_local(),
            Self::Stop(args) => stop(args, config).boxed_local(),
            Self::Park(args) => park(args, config).boxed_local(),
            Self::Prune(args) => prune(args, config).boxed_local(),
            Self::Project(args) => project(args, config).boxed_local(),
            Self::Token(args) => token(args, config).boxed_local(),
            Self::WhoAmI(args) => whoami(args, config).boxed_local(),
            Self::Audit(args) => audit(args, config).boxed_local(),
            Self::AcceptEngine(args) => accept_engine(args, config).boxed_local(),
        }
    }
}
