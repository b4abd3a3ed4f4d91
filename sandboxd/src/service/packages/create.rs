//! Sandboxes that are created with packages.

use std::sync::Arc;

use super::resolve::Order;
use super::{KeptSet, Packages};
use crate::model::packages::PackageSet;
use crate::model::{Refusal, Resource, SandboxSpec};
use crate::service::lifecycle::{Changes, Reconnected};
use crate::service::{Authorized, Error, SnapshotError};

impl Packages {
    /// Returns the sandbox of a session, like [`crate::service::Lifecycle::create_or_reconnect`]. A new one has the packages. An
    /// existing one keeps its own files, and nothing is resolved for it.
    pub async fn create(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
        set: PackageSet,
    ) -> Result<Reconnected, Error> {
        if self.lifecycle.has_session(&spec.owner, &spec.session_key) {
            // If it is deleted meanwhile, this fails, so that no sandbox without the packages is created.
            let none = Err(Refusal::NotFound(Resource::Sandbox).into());
            return self.snapshots.create(spec, changes, none).await;
        }
        self.check_policy(&spec.network)?;
        let image = self.image_id(spec.image.as_deref()).await?;
        let key = set.key(&image, &self.settings);
        let order = Order { owner: spec.owner.clone(), image: spec.image.clone(), set, key };
        let kept = self.ready(&order).await?;
        let snapshot = |kept: &KeptSet| Ok(Authorized::new(kept.snapshot.clone()));
        let created = self.snapshots.create(spec.clone(), changes, snapshot(&kept)).await;
        if !created.as_ref().is_err_and(is_unusable) {
            return created;
        }
        // It made room for others in between, or is damaged.
        self.forget(&kept).await;
        let kept = self.ready(&order).await?;
        self.snapshots.create(spec, changes, snapshot(&kept)).await
    }
}

/// Whether the snapshot of a set is gone or damaged.
pub(super) fn is_unusable(error: &Error) -> bool {
    match error {
        Error::Refused(Refusal::NotFound(Resource::Snapshot))
        | Error::Snapshot(SnapshotError::Damaged { .. }) => true,
        Error::CreateFailed(error) => is_unusable(error),
        _ => false,
    }
}
