//! A path in a sandbox.

use sandbox_api::SandboxId;
use sandbox_client::Client;

/// A path in a sandbox, and the client to access it.
pub(super) struct RemotePath {
    pub(super) client: Client,
    pub(super) sandbox: SandboxId,
    pub(super) path: String,
}
