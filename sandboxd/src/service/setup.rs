//! The operator's settings of the service.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::model::audit::AuditSettings;
use crate::model::jwt::JwtSettings;
use crate::model::packages::PackageSettings;
use crate::model::preview::PreviewSettings;
use crate::model::repository::RepositorySettings;
use crate::model::{DiskQuota, EgressSettings, ImageSource, Limits, ProjectQuotas, RemoteStore, Transport};

/// Configuration of the service.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Bounds that the operator sets.
    pub limits: Limits,
    /// Directory of the daemon's state. Snapshots are below it.
    pub state_dir: PathBuf,
    /// Remote store of snapshots. `None` is a directory in the state dir.
    pub remote_store: Option<RemoteStore>,
    /// The audit record.
    pub audit: AuditSettings,
    /// Directory of the agents' sockets. Only this installation uses it.
    pub run_dir: PathBuf,
    /// Distinguishes the state dir from a copy of it.
    pub holder: String,
    /// Tag of the sandbox image.
    pub image: String,
    /// Other images that a client may request.
    pub allowed_images: Vec<String>,
    /// What a missing image is built from. `None` forbids building.
    pub image_source: Option<ImageSource>,
    /// The agent's program on this machine.
    pub agent_program: PathBuf,
    /// Whether agents keep shells waiting for commands.
    pub waiting_shells: bool,
    /// Whether sandboxes of the original daemon are adopted.
    pub adopt_original: bool,
    /// Whether workspaces must have a quota.
    pub disk_quota: DiskQuota,
    /// How agents are reached. If `None`, the start finds out.
    pub transport: Option<Transport>,
    /// Addresses and ports of previews.
    pub preview: PreviewSettings,
    /// Image with socat, for publishing ports. If `None`, the pinned image or the sandbox image is used.
    pub proxy_image: Option<String>,
    /// Prefix of the names of the daemon's networks. The instance's id follows.
    pub network_name: String,
    /// Whether a sandbox may have a network of its own.
    pub open_network: bool,
    /// Quotas of projects that have no others, except the operator's.
    pub project_quotas: ProjectQuotas,
    /// The operator's rules for outbound connections.
    pub egress: EgressSettings,
    /// Repositories that are fetched.
    pub repositories: RepositorySettings,
    /// Python packages that are resolved.
    pub packages: PackageSettings,
    /// Which JSON Web Tokens are accepted. `None` accepts none.
    pub jwt: Option<JwtSettings>,
    /// Ports of this machine that sandboxes never reach.
    pub own_ports: Vec<RangeInclusive<u16>>,
}
