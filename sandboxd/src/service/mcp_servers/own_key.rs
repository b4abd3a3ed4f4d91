//! Session keys of the sandboxes that servers have for themselves.

use sandbox_api::SandboxId;

use crate::model::mcp::OWN_SANDBOX_KEYS;
use crate::model::{FieldError, SessionKey};
use crate::service::Error;

/// Whether the session key is that of a server's own sandbox.
pub(super) fn is_own(key: &SessionKey) -> bool {
    key.as_str().starts_with(OWN_SANDBOX_KEYS)
}

/// The session key for a server of a sandbox.
pub(super) fn of(sandbox: &SandboxId, name: &str) -> Result<SessionKey, Error> {
    let key = format!("{OWN_SANDBOX_KEYS}{sandbox}:{name}").parse().map_err(FieldError::from);
    key.map_err(|error| Error::Refused(error.into()))
}

/// The server that has this session key. `None` if it is not a result of [`of`].
pub(super) fn server_of(key: &SessionKey) -> Option<(SandboxId, String)> {
    let (sandbox, name) = key.as_str().strip_prefix(OWN_SANDBOX_KEYS)?.split_once(':')?;
    Some((sandbox.parse().ok()?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_server() {
        let server = ("sbx_0123456789abcdef".parse().unwrap(), "files_1.2".to_owned());
        let key = of(&server.0, &server.1).unwrap();
        assert_eq!((is_own(&key), server_of(&key)), (true, Some(server)));
        for other in ["chat:1", "mcp-server:x:files", "mcp-server:sbx_0123456789abcdef"] {
            assert_eq!(server_of(&other.parse().unwrap()), None);
        }
    }
}
