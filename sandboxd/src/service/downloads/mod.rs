//! Links that download one file of a sandbox, for browsers without a token.
//!
//! Nothing about a link is stored, so it cannot be revoked. It ends when it expires or its sandbox is deleted. A
//! visitor with a link takes places from the sandbox's owner, so there are few for all visitors of a sandbox.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sandbox_api::SandboxId;
use tokio::sync::OwnedSemaphorePermit;

use super::audit::Audit;
use super::files::Files;
use super::lifecycle::Lifecycle;
use super::{Context, Error};
use crate::model::Instance;
use crate::model::download::{DownloadGrant, DownloadLink};
use crate::model::files::FilePath;
use crate::service::Authorized;
use crate::service::clock::now_ms;

/// A visitor's download. Counts against the sandbox's limit of downloads until it is dropped.
#[derive(Debug)]
pub struct DownloadPermit {
    /// The sandbox of the link.
    pub sandbox: Authorized<SandboxId>,
    _permit: OwnedSemaphorePermit,
}

/// Creates links and reads their tokens.
#[derive(Debug)]
pub struct Downloads {
    audit: Arc<Audit>,
    lifecycle: Arc<Lifecycle>,
    files: Arc<Files>,
    instance: Arc<Instance>,
}

impl Downloads {
    pub(in crate::service) fn new(
        context: &Context,
        audit: &Arc<Audit>,
        lifecycle: &Arc<Lifecycle>,
        files: &Arc<Files>,
    ) -> Self {
        Self {
            audit: Arc::clone(audit),
            lifecycle: Arc::clone(lifecycle),
            files: Arc::clone(files),
            instance: Arc::clone(&context.instance),
        }
    }

    /// Creates a link to a file. Fails if the file cannot be downloaded now.
    pub async fn create_link(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        ttl: Duration,
    ) -> Result<DownloadLink, Error> {
        let (header, _) = self.files.read(id, path.clone(), None).await?;
        let expires_at_ms = now_ms().saturating_add(ttl.as_millis() as i64);
        let grant = DownloadGrant { sandbox: (**id).clone(), path, expires_at_ms };
        let token = grant.seal(&self.instance);
        Ok(DownloadLink { grant, token, size_bytes: header.info.size_bytes })
    }

    /// Reads the token of a link, valid or expired. `None` if this daemon has not made it.
    pub fn open_link(&self, token: &str) -> Option<DownloadGrant> {
        DownloadGrant::open(token, &self.instance)
    }

    /// Whether the link has expired.
    pub fn is_expired(&self, grant: &DownloadGrant) -> bool {
        grant.expires_at_ms <= now_ms()
    }

    /// Begins a download through a link.
    pub fn begin(&self, grant: &DownloadGrant, visitor: IpAddr) -> Result<DownloadPermit, Error> {
        let sandbox = self.lifecycle.find(&grant.sandbox)?;
        let permit = sandbox.download()?;
        self.audit.record_download(sandbox.id(), sandbox.owner(), &grant.path, visitor)?;
        Ok(DownloadPermit { sandbox: Authorized::new(grant.sandbox.clone()), _permit: permit })
    }
}
