//! Lifecycle of links to previews: create, end, remove, and restore at a start.
//!
//! A link's token is derived from its id and the instance key, so the store contains no token. An ended link is kept for a
//! while, so that a visitor sees why it ended.

use std::sync::Arc;

use sandbox_api::port::LinkStyle;
use sandbox_api::{LinkId, SandboxId, TokenId};
use tracing::{info, warn};

use super::link::{Link, LinkRequest};
use super::{Error, Previews};
use crate::model::preview::{LinkEnd, LinkRecord, PreviewToken};
use crate::model::{Owner, Refusal, Resource, limits};
use crate::service::Authorized;
use crate::service::clock::now_ms;

impl Previews {
    /// Returns the link with this token, valid or ended.
    pub fn link_of_token(&self, token: &PreviewToken) -> Option<Arc<Link>> {
        self.links.of_token(token)
    }

    /// Creates a link to a port that the sandbox may expose.
    pub async fn create_link(
        &self,
        id: &Authorized<SandboxId>,
        port: u16,
        request: LinkRequest,
    ) -> Result<Arc<Link>, Error> {
        self.check_offered(id, port)?;
        let _creation = self.links.creation.lock().await;
        self.create_link_locked(id, port, request).await
    }

    /// Returns the link with the default style that this token has made and that lasts as long as the sandbox. Creates it if
    /// needed. `None` if the
    /// sandbox may not expose the port.
    pub async fn default_link(
        &self,
        id: &Authorized<SandboxId>,
        port: u16,
        token: Option<&TokenId>,
    ) -> Result<Option<Arc<Link>>, Error> {
        if matches!(self.check_offered(id, port), Err(Error::Refused(Refusal::NotFound(Resource::Port)))) {
            return Ok(None);
        }
        self.check_offered(id, port)?;
        let _creation = self.links.creation.lock().await;
        let style = self.setup.preview.default_style();
        let is_default = |link: &Arc<Link>| {
            let record = link.record();
            (record.port, record.style, record.expires_at_ms, record.token.as_ref())
                == (port, style, None, token)
        };
        match self.links.of(id).into_iter().find(is_default) {
            Some(link) => Ok(Some(link)),
            None => {
                let request = LinkRequest { token: token.cloned(), ..LinkRequest::default() };
                self.create_link_locked(id, port, request).await.map(Some)
            }
        }
    }

    async fn create_link_locked(
        &self,
        id: &SandboxId,
        port: u16,
        request: LinkRequest,
    ) -> Result<Arc<Link>, Error> {
        if self.links.of(id).len() >= limits::MAX_LINKS {
            return Err(Refusal::LimitReached {
                limit: "links of a sandbox".into(),
                value: limits::MAX_LINKS as u64,
            }
            .into());
        }
        let charge = self.quotas.link(&self.lifecycle.find(id)?.owner().project)?;
        let style = request.style.unwrap_or_else(|| self.setup.preview.default_style());
        let listener = match style {
            LinkStyle::Host => None,
            LinkStyle::Port => Some(self.bind_listener().await?),
        };
        let created_at_ms = now_ms();
        let record = LinkRecord {
            id: LinkId::random().map_err(|source| Error::Randomness { source })?,
            sandbox: id.clone(),
            port,
            style,
            own_port: listener.as_ref().and_then(|listener| Some(listener.local_addr().ok()?.port())),
            created_at_ms,
            expires_at_ms: request.ttl.map(|ttl| created_at_ms.saturating_add(ttl.as_millis() as i64)),
            ended: None,
            token: request.token,
        };
        self.store.add_link(&record).await?;
        let token = self.instance.preview_token(&record.id);
        let link = Link::new(record, token, Some(charge));
        self.links.insert(&link);
        // The sandbox may have been deleted while the link was created.
        if self.lifecycle.find(id).is_err() {
            self.end_links(std::slice::from_ref(&link), LinkEnd::SandboxGone).await;
            return Err(Refusal::NotFound(Resource::Sandbox).into());
        }
        if let Some(listener) = listener {
            self.serve(&link, listener).await;
        }
        info!(sandbox = %id, port, link = %link.record().id, "created a link");
        Ok(link)
    }

    /// Ends links, except those that stay, by their record and the owner of their sandbox.
    pub(in crate::service) async fn end_links_unless(
        &self,
        stays: impl Fn(&LinkRecord, Option<&Owner>) -> bool,
    ) {
        let mut late = self.links.all();
        late.retain(|link| {
            let sandbox = self.lifecycle.find(&link.record().sandbox).ok();
            link.end().is_none() && !stays(link.record(), sandbox.as_ref().map(|found| found.owner()))
        });
        self.end_links(&late, LinkEnd::Revoked).await;
    }

    /// Lists the valid links of a sandbox, the newest last.
    pub fn links(&self, id: &Authorized<SandboxId>) -> Result<Vec<Arc<Link>>, Error> {
        self.lifecycle.find(id)?;
        Ok(self.links.of(id))
    }

    /// Returns one valid link of a port.
    pub fn link(&self, id: &Authorized<SandboxId>, port: u16, link: &LinkId) -> Result<Arc<Link>, Error> {
        let found = self
            .links(id)?
            .into_iter()
            .find(|found| (&found.record().id, found.record().port) == (link, port));
        found.ok_or(Refusal::NotFound(Resource::Link).into())
    }

    /// Revokes a link and closes its open connections. Idempotent: also succeeds if the link has ended.
    pub async fn revoke_link(
        &self,
        id: &Authorized<SandboxId>,
        port: u16,
        link: &LinkId,
    ) -> Result<(), Error> {
        match self.link(id, port, link) {
            Ok(link) => {
                self.store
                    .end_links(std::slice::from_ref(&link.record().id), LinkEnd::Revoked, now_ms())
                    .await?;
                self.finish(&link, LinkEnd::Revoked, now_ms());
                Ok(())
            }
            Err(Error::Refused(Refusal::NotFound(Resource::Link))) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Checks that the sandbox may expose the port.
    pub(super) fn check_offered(&self, id: &SandboxId, port: u16) -> Result<(), Error> {
        let is_offered = self.lifecycle.find(id)?.with_spec(|spec| spec.ports.contains(&port));
        if is_offered { Ok(()) } else { Err(Refusal::NotFound(Resource::Port).into()) }
    }

    /// Restores the links from the previous run.
    pub(in crate::service) async fn restore_links(&self) -> Result<(), Error> {
        for record in self.store.links().await? {
            let token = self.instance.preview_token(&record.id);
            let sandbox = self.lifecycle.registered(&record.sandbox).filter(|_| record.ended.is_none());
            let charge = sandbox.map(|sandbox| self.quotas.existing_link(&sandbox.owner().project));
            self.links.insert(&Link::new(record, token, charge));
        }
        let mut all = self.links.all();
        all.sort_by_key(|link| link.ended_at_ms().unwrap_or(link.record().created_at_ms));
        for port in all.iter().filter_map(|link| link.record().own_port) {
            self.listeners.record_use(port);
        }
        let lost = |link: &&Arc<Link>| {
            link.end().is_none() && self.lifecycle.registered(&link.record().sandbox).is_none()
        };
        let lost: Vec<_> = all.iter().filter(lost).cloned().collect();
        self.end_links(&lost, LinkEnd::SandboxGone).await;
        self.open_listeners().await;
        Ok(())
    }

    /// Ends the links of a deleted sandbox.
    pub(super) async fn end_links_of(&self, id: &SandboxId) {
        self.end_links(&self.links.of(id), LinkEnd::SandboxGone).await;
    }

    /// Ends the links that have expired.
    pub(in crate::service) async fn end_expired_links(&self) {
        let mut late = self.links.all();
        late.retain(|link| link.end.get().is_none() && link.end() == Some(LinkEnd::Expired));
        self.end_links(&late, LinkEnd::Expired).await;
    }

    async fn end_links(&self, links: &[Arc<Link>], end: LinkEnd) {
        if links.is_empty() {
            return;
        }
        let at_ms = now_ms();
        for link in links {
            self.finish(link, end, at_ms);
        }
        let ids: Vec<LinkId> = links.iter().map(|link| link.record().id.clone()).collect();
        // If this fails, the next start ends them again, because their sandbox or their token is gone, or they have
        // expired.
        if let Err(error) = self.store.end_links(&ids, end, at_ms).await {
            warn!(error = &error as &dyn std::error::Error, "could not record the end of links");
        }
    }

    /// Removes links that ended long ago, and the oldest ended ones beyond their maximum. Opens ports that could not be opened
    /// before, and closes ports of ended links.
    pub(in crate::service) async fn maintain_links(&self) {
        self.open_listeners().await;
        self.close_old_listeners();
        let mut ended: Vec<_> =
            self.links.all().into_iter().filter_map(|link| Some((link.end.get()?.1, link))).collect();
        ended.sort_by_key(|(at_ms, _)| *at_ms);
        let long_ago = now_ms() - limits::LINK_KEPT.as_millis() as i64;
        let surplus = ended.len().saturating_sub(limits::MAX_ENDED_LINKS);
        let old =
            ended.iter().enumerate().filter(|(at, (ended_at, _))| *at < surplus || *ended_at < long_ago);
        let old: Vec<_> = old.map(|(_, (_, link))| Arc::clone(link)).collect();
        let ids: Vec<LinkId> = old.iter().map(|link| link.record().id.clone()).collect();
        match self.store.forget_links(&ids).await {
            Ok(()) => old.iter().for_each(|link| {
                link.close_port();
                self.links.remove(link);
            }),
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "could not remove old links");
            }
        }
    }

    fn finish(&self, link: &Link, end: LinkEnd, at_ms: i64) {
        link.finish(end, at_ms);
        if let Some(port) = link.record().own_port {
            self.listeners.record_use(port);
        }
    }
}
