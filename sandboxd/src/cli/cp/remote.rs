//! A file or directory of a sandbox.

use sandbox_api::SandboxId;
use sandbox_client::Client;

/// A sandbox's path, and how to get there.
pub(super) struct Remote {
    pub(super) client: Client,
    pub(super) sandbox: SandboxId,
    pub(super) path: String,
}
