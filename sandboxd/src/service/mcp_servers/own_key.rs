//! Session keys of the sandboxes that servers have for themselves.

use sandbox_api::SandboxId;

use crate::model::{FieldError, SessionKey};
use crate::service::Error;

/// Beginning of the session keys of these sandboxes. It is in no namespace of a surface, so no tool reaches them.
const PREFIX: &str = "mcp-server:";

/// Whether the session key is that of a server's own sandbox.
pub(super) fn is_own(key: &SessionKey) -> bool {
    key.to_string().starts_with(PREFIX)
}

/// The session key for a server of a sandbox.
pub(super) fn of(sandbox: &SandboxId, name: &str) -> Result<SessionKey, Error> {
    let key = format!("{PREFIX}{sandbox}:{name}").parse().map_err(FieldError::from);
    key.map_err(|error| Error::Refused(error.into()))
}
