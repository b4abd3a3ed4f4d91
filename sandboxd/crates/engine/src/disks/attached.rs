//! A disk that is attached: from attach to release.

use std::sync::Arc;

use super::connection::HelperConnection;
use crate::Error;
use sandboxd_model::limits;

/// An attached disk. Dropping it releases the disk too, a moment later and without a result.
#[derive(Debug)]
#[must_use = "the disk stays attached only as long as this lives"]
pub struct Attached {
    name: String,
    /// The helper that attached the disk. `None` after the release.
    helper: Option<Arc<HelperConnection>>,
}

impl Attached {
    pub(super) fn by(helper: Arc<HelperConnection>, name: &str) -> Self {
        Self { name: name.to_owned(), helper: Some(helper) }
    }

    /// There is nothing to release.
    pub(super) fn forget(mut self) {
        self.helper = None;
    }

    /// Releases the disk. Its device stays for as long as it is mounted.
    ///
    /// After an error it is unknown what the engine has mounted meanwhile. A container with the disk's mount must
    /// not use it.
    pub async fn release(mut self) -> Result<(), Error> {
        let call = "release disk";
        let Some(helper) = self.helper.take() else { return Ok(()) };
        let answer = helper.ask(call, limits::DISK_CALL, &format!("release {}", self.name)).await?;
        answer.map(drop).map_err(|source| Error::Disk { call, name: self.name.clone(), source })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(helper) = self.helper.take() else { return };
        let words = format!("release {}", self.name);
        // Without a runtime, no request is possible. The helper ends with the daemon.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { helper.ask("release disk", limits::DISK_CALL, &words).await });
        }
    }
}
