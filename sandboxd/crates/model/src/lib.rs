//! The values that all other crates use: ids, specifications, states, limits. There is no I/O here.

mod admin_token;
pub mod audit;
mod ca_bundle;
mod checkpoints;
mod child_token;
pub mod command;
pub mod context;
mod digest;
pub mod disk;
pub mod download;
pub mod echo;
mod egress;
mod engine_address;
pub mod field;
pub mod files;
pub mod front;
pub mod host;
mod image_source;
pub mod instance;
pub mod jwt;
pub mod layout;
pub mod limits;
pub mod mcp;
pub mod network;
pub mod orphan;
pub mod owner;
pub mod packages;
pub mod pipeline;
pub mod port;
pub mod posture;
pub mod preview;
pub mod principal;
mod public_error;
pub mod quota;
pub mod rates;
pub mod read_only;
pub mod record;
pub mod refusal;
mod remote_store;
pub mod repository;
pub mod resource_limits;
pub mod sandbox;
pub mod secret;
pub mod snapshot;
mod tail;
pub mod terminal;
pub mod token;
pub mod tool;
pub mod tool_tokens;
mod upstream;
mod usage;
pub mod value;

pub use admin_token::AdminToken;
pub use ca_bundle::CaBundle;
pub use checkpoints::Checkpoints;
pub use child_token::ChildGrant;
pub use command::{CommandSpec, Ended, Event, Program};
pub use digest::RequestDigest;
pub use disk::{Disk, DiskQuota, Lower};
pub use egress::EgressSettings;
pub use engine_address::EngineAddress;
pub use host::Host;
pub use image_source::ImageSource;
pub use instance::Instance;
pub use limits::Limits;
pub use network::{NetworkMode, NetworkPolicy};
pub use orphan::{Orphan, OrphanKind};
pub use owner::{Owner, ProjectName, ProjectRecord, RevokedSubject, Subject};
pub use posture::Posture;
pub use principal::{Principal, Scope, Scopes};
pub use public_error::PublicError;
pub use quota::{Amounts, DayUsage, ProjectQuotas, Quota, UsageRecord};
pub use record::{CommandRecord, SandboxRecord, Stage};
pub use refusal::{CommandRefusal, FileRefusal, Refusal, Resource};
pub use remote_store::{MASTER_KEY_BYTES, MasterKeys, RemoteLocation, RemoteStore, StoreFault};
pub use resource_limits::{LimitProfile, ResourceLimits};
pub use sandbox::{POOL_KEY, Resources, Runtime, SandboxSpec, Transport, UidSlot};
pub use sandbox_api::SessionKey;
pub use secret::Secret;
pub use snapshot::{RestoreRecord, SnapshotCursor, SnapshotRecord, SnapshotState};
pub use tail::Tail;
pub use terminal::{TerminalEvent, TerminalSize, TerminalSpec, TerminalStatus};
pub use token::{TokenDigest, TokenRecord, TokenText};
pub use tool_tokens::ToolTokens;
pub use upstream::{NoProxy, Upstream, Upstreams};
pub use usage::ContainerUsage;

use thiserror::Error;

use self::echo::cut;

/// A caller's value that is invalid for its field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{field}` {problem}")]
pub struct FieldError {
    /// The field as the caller spelled it, such as `resources.vcpus`.
    pub field: String,
    /// What is wrong, as the end of a sentence that begins with the field.
    pub problem: String,
}

impl FieldError {
    /// Creates an error about `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        let (field, problem) = (field.into(), problem.into());
        // Both may contain text of any length from a caller.
        Self {
            field: cut(&field, limits::MAX_ECHO_BYTES).into_owned(),
            problem: cut(&problem, limits::MAX_PROBLEM_BYTES).into_owned(),
        }
    }
}

impl From<sandbox_api::SessionKeyError> for FieldError {
    fn from(error: sandbox_api::SessionKeyError) -> Self {
        Self::new("sessionKey", error.to_string())
    }
}
