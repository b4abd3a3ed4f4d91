//! Types that sandboxd and its clients exchange over HTTP: ids, bodies, records and error codes.
//!
//! Defines shapes and the limits that the daemon and its clients share. Does no I/O. In requests, `null` means
//! absent, and types are checked strictly. Fields are only ever added, so unknown ones are ignored.

pub mod audit;
pub mod batch;
pub mod command;
pub mod context;
pub mod error;
pub mod files;
pub mod health;
pub mod history;
pub mod id;
pub mod limits;
pub mod mcp;
pub mod network;
pub mod object;
pub mod orphan;
pub mod port;
pub mod project;
pub mod quota;
pub mod repository;
pub mod sandbox;
pub mod session;
pub mod snapshot;
mod string_map;
pub mod terminal;
pub mod tool;
pub mod value;

pub use error::{ErrorBody, ErrorCode};
pub use id::{CommandId, ContextId, DenialId, IdError, LinkId, SandboxId, SnapshotId, TerminalId, TokenId};
pub use session::{SessionKey, SessionKeyError};
pub use string_map::StringMap;

/// Header for the admin token. `Authorization: Bearer` is accepted too.
pub const TOKEN_HEADER: &str = "x-remcochat-admin-token";

/// Header with the size of a file in bytes, if the response has another length.
pub const FILE_SIZE_HEADER: &str = "x-file-size";

/// Response header with the request's id.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// Content type of a record stream: one JSON object per line.
pub const NDJSON: &str = "application/x-ndjson; charset=utf-8";

/// Directory of the session's files in every sandbox.
pub const WORKSPACE: &str = "/vercel/sandbox/workspace";

/// Response of an operation that returns no data: `{"ok":true}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Done {
    /// Always true.
    pub ok: bool,
}

impl Done {
    /// `{"ok":true}`
    pub const OK: Self = Self { ok: true };
}
