//! The words sandboxd and its clients exchange over HTTP: ids, bodies, records, error codes.
//!
//! Owns shapes, and the bounds that daemon and clients share: no I/O, no database. Requests
//! are lenient in what is absent (`null` means absent) and strict in type; fields only ever get added, so
//! unknown ones are ignored.

pub mod batch;
pub mod command;
pub mod error;
pub mod files;
pub mod health;
pub mod id;
pub mod limits;
pub mod network;
pub mod object;
pub mod orphan;
pub mod port;
pub mod sandbox;
pub mod terminal;

pub use error::{ErrorBody, ErrorCode};
pub use id::{CommandId, IdError, LinkId, SandboxId, TerminalId};
pub use sandbox::StringMap;

/// Header that carries the admin token. `Authorization: Bearer` works too.
pub const TOKEN_HEADER: &str = "x-remcochat-admin-token";

/// Header that carries a request's id on every response.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// Content type of a record stream: one JSON object a line.
pub const NDJSON: &str = "application/x-ndjson; charset=utf-8";

/// Where the files of a session are, in every sandbox.
pub const WORKSPACE: &str = "/vercel/sandbox/workspace";

/// The answer of a verb that has nothing else to say: `{"ok":true}`.
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
