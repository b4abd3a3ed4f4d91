//! A disk's time with a device: from attach to release.

use std::sync::Arc;

use super::link::Link;
use crate::Error;
use sandboxd_model::limits;

/// A disk with its device. Dropping it lets go as well, a moment later and without a word.
#[derive(Debug)]
#[must_use = "the disk stays attached only as long as this lives"]
pub struct Attached {
    name: String,
    /// The helper that attached it; `None` when it was let go of.
    link: Option<Arc<Link>>,
}

impl Attached {
    pub(super) fn by(link: Arc<Link>, name: &str) -> Self {
        Self { name: name.to_owned(), link: Some(link) }
    }

    /// There is nothing to let go of.
    pub(super) fn forget(mut self) {
        self.link = None;
    }

    /// Lets go of the disk: its device stays for as long as it is mounted.
    ///
    /// An error means that nobody knows what the engine mounted in the meantime. Whoever had it mounted
    /// must not use that mount.
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
        // Outside of a runtime nothing can be asked any more; the helper ends with us.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { link.ask("release disk", limits::DISK_CALL, &words).await });
        }
    }
}
