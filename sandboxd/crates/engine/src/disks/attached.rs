//! A disk that is attached: from attach to release.

use std::sync::Arc;

use super::link::Link;
use crate::Error;
use sandboxd_model::limits;

/// An attached disk. Dropping it releases the disk too, a moment later and without a result.
#[derive(Debug)]
#[must_use = "the disk stays attached only as long as this lives"]
pub struct Attached {
    name: String,
    /// The helper that attached the disk. `None` after the release.
    link: Option<Arc<Link>>,
}

impl Attached {
    pub(super) fn by(link: Arc<Link>, name: &str) -> Self {
        Self { name: name.to_owned(), link: Some(link) }
    }

    /// There is nothing to release.
    pub(super) fn forget(mut self) {
        self.link = None;
    }

    /// Releases the disk. Its device stays for as long as it is mounted.
    ///
    /// After an error it is unknown what the engine has mounted meanwhile. A container with the disk's mount must
    /// not use it.
    pub async fn release(mut self) -> Result<(), Error> {
        let call = "release disk";
        let Some(link) = self.link.take() else { return Ok(()) };
        let answer = link.ask(call, limits::DISK_CALL, &format!("release {}", self.name)).await?;
        answer.map(drop).map_err(|source| Error::Disk { call, name: self.name.clone(), source })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(link) = self.link.take() else { return };
        let words = format!("release {}", self.name);
        // Without a runtime, no request is possible. The helper ends with the daemon.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { link.ask("release disk", limits::DISK_CALL, &words).await });
        }
    }
}
