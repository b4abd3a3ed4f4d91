//! Every limit of the daemon, by name. The limits of a subject have a module, and all names are used as `limits::NAME`.

mod agents;
mod audit;
mod commands;
mod contexts;
mod egress;
mod engine;
mod files;
mod http;
mod jwt;
mod lifecycle;
mod mcp;
mod packages;
mod previews;
mod projects;
mod quotas;
mod rates;
mod repositories;
mod snapshots;
mod store;
mod streams;
mod terminals;
mod tools;
mod values;

use std::time::Duration;

pub use agents::*;
pub use audit::*;
pub use commands::*;
pub use contexts::*;
pub use egress::*;
pub use engine::*;
pub use files::*;
pub use http::*;
pub use jwt::*;
pub use lifecycle::*;
pub use mcp::*;
pub use packages::*;
pub use previews::*;
pub use projects::*;
pub use quotas::*;
pub use rates::*;
pub use repositories::*;
pub use snapshots::*;
pub use store::*;
pub use streams::*;
pub use terminals::*;
pub use tools::*;
pub use values::*;

/// Limits that the operator sets.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of running sandboxes.
    pub max_concurrent: usize,
    /// Number of sandboxes that are started before a session wants them.
    pub pool_size: usize,
    /// Idle time after which a sandbox is parked, if the caller sets none.
    pub default_idle_ttl: Duration,
    /// How long the workspace of a parked sandbox is kept, by the daemon's own age.
    pub workspace_retention: Duration,
    /// Total size of all workspaces before parked ones are deleted. `None` means no budget.
    pub disk_budget_bytes: Option<u64>,
    /// Space that the bases of snapshots may take on the engine's machine, in bytes. 0 means no bases.
    pub bases_bytes: u64,
    /// Total size of the stored snapshots after which no more are made. `None` means unlimited.
    pub snapshots_bytes: Option<u64>,
    /// How long an orphan on the engine is kept, by the daemon's own age and by the wall clock.
    pub orphan_grace: Duration,
    /// Maximum size of a request body in bytes.
    pub max_body_bytes: usize,
    /// Maximum time limit of a command.
    pub max_command_timeout: Duration,
    /// Time that a server in a sandbox may take to begin its response to a visitor.
    pub preview_answer: Duration,
}
