//! Packages for a context of a sandbox that runs.
//!
//! A running container cannot get another mount. So the files are copied to the sandbox's own disk, outside of the workspace, unless
//! it was created with the same set, or another context has got it before. Only the context sees them: two contexts can have
//! different versions of the same package.

use std::sync::Arc;

use sandbox_api::{CommandId, SandboxId, SnapshotId};
use tokio::time::timeout;

use super::create::is_unusable;
use super::resolve::Order;
use super::{PackageError, Packages};
use crate::agent::AgentHandle;
use crate::model::context::ContextSpec;
use crate::model::packages::{PackageSet, PackageSetKey};
use crate::model::{CommandSpec, limits};
use crate::service::lifecycle::Sandbox;
use crate::service::run_to_end::run_to_end;
use crate::service::{Authorized, Error};

/// The directory of all sets in a snapshot, and in a sandbox.
const SETS: [&str; 3] = [".local", "share", "packages"];
const SETS_PATH: &str = "/vercel/sandbox/.local/share/packages";

/// Where Python looks for modules first.
const PYTHON_PATH: &str = "PYTHONPATH";

impl Packages {
    /// Adds packages to a sandbox, for a context that is opened next. Sets the variable by which its Python finds them.
    pub async fn add(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        set: PackageSet,
        context: &mut ContextSpec,
    ) -> Result<(), Error> {
        let (packages, of) = (Arc::clone(self), id.clone());
        let key = self.tasks.run_detached(async move { packages.add_now(&of, set).await }).await?;
        let sandbox = self.lifecycle.find(id)?;
        let before = context.env.get(PYTHON_PATH).cloned();
        let before = before.or_else(|| sandbox.with_spec(|spec| spec.env.get(PYTHON_PATH).cloned()));
        let path = match before.filter(|before| !before.is_empty()) {
            Some(before) => format!("{SETS_PATH}/{key}:{before}"),
            None => format!("{SETS_PATH}/{key}"),
        };
        context.env.insert(PYTHON_PATH.to_owned(), path);
        Ok(())
    }

    async fn add_now(self: &Arc<Self>, id: &SandboxId, set: PackageSet) -> Result<PackageSetKey, Error> {
        let (sandbox, agent, _mark) = self.lifecycle.in_use(id).await?.unlock();
        self.check_policy(&sandbox.with_spec(|spec| spec.network.clone()))?;
        let image = sandbox.with_spec(|spec| spec.image.clone());
        let image_id = match sandbox.image_id() {
            Some(id) => id,
            None => self.image_id(image.as_deref()).await?,
        };
        let key = set.key(&image_id, &self.settings);
        if has_set(&agent, &key).await? {
            return Ok(key);
        }
        let order = Order { owner: sandbox.owner().clone(), image, set, key: key.clone() };
        self.copy(&sandbox, &agent, &order).await?;
        Ok(key)
    }

    async fn copy(
        self: &Arc<Self>,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        order: &Order,
    ) -> Result<(), Error> {
        let kept = self.ready(order).await?;
        let copied = self.copy_once(sandbox, agent, &kept.snapshot).await;
        if !copied.as_ref().is_err_and(is_unusable) {
            return copied;
        }
        // It made room for others in between, or is damaged.
        self.forget(&kept).await;
        let kept = self.ready(order).await?;
        self.copy_once(sandbox, agent, &kept.snapshot).await
    }

    async fn copy_once(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        snapshot: &SnapshotId,
    ) -> Result<(), Error> {
        let copied = self.snapshots.copy_directory(sandbox, agent, snapshot, &SETS);
        timeout(limits::PACKAGE_COPY, copied).await.map_err(|_| PackageError::TooSlow)?
    }
}

/// Whether a sandbox has all files of a set. Its commands can change that, which harms only the sandbox.
async fn has_set(agent: &AgentHandle, key: &PackageSetKey) -> Result<bool, Error> {
    let id = CommandId::random().map_err(|source| Error::Randomness { source })?;
    let script = format!("[[ -f {SETS_PATH}/{key}.complete ]]");
    let spec = CommandSpec::script(id, &script, limits::PACKAGE_CHECK);
    Ok(run_to_end(agent, &spec, 0).await?.ended.exit_code == 0)
}
