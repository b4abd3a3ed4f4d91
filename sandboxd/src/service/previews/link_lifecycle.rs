//! Links to previews over time: made, ended, forgotten, and taken in again at a start.
//!
//! A link's token is derived from its id and the instance's key, so the store holds none. A link that leads nowhere any more is
//! kept for a while, so that who follows it is told why.

use std::sync::Arc;

use sandbox_api::port::LinkStyle;
use sandbox_api::{LinkId, SandboxId};
use tracing::{info, warn};

use super::link::{Link, LinkRequest};
use super::{Error, Previews};
use crate::model::preview::{LinkEnd, LinkRecord, PreviewToken};
use crate::model::{Refusal, Resource, limits};
use crate::service::clock::now_ms;

impl Previews {
    /// The link that a token opens, whether or not it still leads anywhere.
    pub fn link_of_token(&self, token: &PreviewToken) -> Option<Arc<Link>> {
        self.links.of_token(token)
    }

    /// Makes a link to a port that the sandbox may offer.
    pub async fn make_link(&self, id: &SandboxId, port: u16, wish: LinkRequest) -> Result<Arc<Link>, Error> {
        self.offers(id, port)?;
        let _making = self.links.making.lock().await;
        self.make_link_held(id, port, wish).await
    }

    /// The link that lives as long as the sandbox, made where there is none; `None` where the sandbox may not offer the
    /// port.
    pub async fn standing_link(&self, id: &SandboxId, port: u16) -> Result<Option<Arc<Link>>, Error> {
        if matches!(self.offers(id, port), Err(Error::Refused(Refusal::NotFound(Resource::Port)))) {
            return Ok(None);
        }
        self.offers(id, port)?;
        let _making = self.links.making.lock().await;
        let style = self.setup.preview.default_style();
        let stands = |link: &Arc<Link>| {
            let record = link.record();
            (record.port, record.style, record.expires_at_ms) == (port, style, None)
        };
        match self.links.of(id).into_iter().find(stands) {
            Some(link) => Ok(Some(link)),
            None => self.make_link_held(id, port, LinkRequest::default()).await.map(Some),
        }
    }

    async fn make_link_held(&self, id: &SandboxId, port: u16, wish: LinkRequest) -> Result<Arc<Link>, Error> {
        if self.links.of(id).len() >= limits::MAX_LINKS {
            return Err(Refusal::LimitReached {
                limit: "links of a sandbox".into(),
                value: limits::MAX_LINKS as u64,
            }
            .into());
        }
        let style = wish.style.unwrap_or_else(|| self.setup.preview.default_style());
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
            door: listener.as_ref().and_then(|listener| Some(listener.local_addr().ok()?.port())),
            created_at_ms,
            expires_at_ms: wish.ttl.map(|ttl| created_at_ms.saturating_add(ttl.as_millis() as i64)),
            ended: None,
        };
        self.store.add_link(&record).await?;
        let token = self.instance.preview_token(&record.id);
        let link = Link::new(record, token);
        self.links.insert(&link);
        // It may have been deleted while the link was made.
        if self.lifecycle.find(id).is_err() {
            self.end_links(std::slice::from_ref(&link), LinkEnd::SandboxGone).await;
            return Err(Refusal::NotFound(Resource::Sandbox).into());
        }
        if let Some(listener) = listener {
            self.serve(&link, listener).await;
        }
        info!(sandbox = %id, port, link = %link.record().id, "made a link");
        Ok(link)
    }

    /// The links of a sandbox that lead there, the newest last.
    pub fn links(&self, id: &SandboxId) -> Result<Vec<Arc<Link>>, Error> {
        self.lifecycle.find(id)?;
        Ok(self.links.of(id))
    }

    /// One of them.
    pub fn link(&self, id: &SandboxId, port: u16, link: &LinkId) -> Result<Arc<Link>, Error> {
        let found = self
            .links(id)?
            .into_iter()
            .find(|found| (&found.record().id, found.record().port) == (link, port));
        found.ok_or(Refusal::NotFound(Resource::Link).into())
    }

    /// Takes a link back; whoever looks at its preview now is cut off. Done as well where it leads nowhere already.
    pub async fn revoke_link(&self, id: &SandboxId, port: u16, link: &LinkId) -> Result<(), Error> {
        match self.link(id, port, link) {
            Ok(link) => {
                self.store
                    .end_links(std::slice::from_ref(&link.record().id), LinkEnd::Revoked, now_ms())
                    .await?;
                self.links.finish(&link, LinkEnd::Revoked, now_ms());
                Ok(())
            }
            Err(Error::Refused(Refusal::NotFound(Resource::Link))) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the sandbox may offer the port.
    pub(super) fn offers(&self, id: &SandboxId, port: u16) -> Result<(), Error> {
        let offers = self.lifecycle.find(id)?.with_spec(|spec| spec.ports.contains(&port));
        if offers { Ok(()) } else { Err(Refusal::NotFound(Resource::Port).into()) }
    }

    /// Takes in the links of before.
    pub(in crate::service) async fn restore_links(&self) -> Result<(), Error> {
        for record in self.store.links().await? {
            let token = self.instance.preview_token(&record.id);
            self.links.insert(&Link::new(record, token));
        }
        let mut all = self.links.all();
        all.sort_by_key(|link| link.ended_at_ms().unwrap_or(link.record().created_at_ms));
        for door in all.iter().filter_map(|link| link.record().door) {
            self.links.turns().used(door);
        }
        let lost = |link: &&Arc<Link>| {
            link.end().is_none() && self.lifecycle.registered(&link.record().sandbox).is_none()
        };
        let lost: Vec<_> = all.iter().filter(lost).cloned().collect();
        self.end_links(&lost, LinkEnd::SandboxGone).await;
        self.open_listeners().await;
        Ok(())
    }

    /// Ends the links of a sandbox that is deleted.
    pub(super) async fn end_links_of(&self, id: &SandboxId) {
        self.end_links(&self.links.of(id), LinkEnd::SandboxGone).await;
    }

    /// Ends the links whose time is over.
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
            self.links.finish(link, end, at_ms);
        }
        let ids: Vec<LinkId> = links.iter().map(|link| link.record().id.clone()).collect();
        // What is not written down is found again at the next start: its sandbox is gone, or its time is over.
        if let Err(error) = self.store.end_links(&ids, end, at_ms).await {
            warn!(error = &error as &dyn std::error::Error, "could not write down that links ended");
        }
    }

    /// Forgets links that ended long ago, and more of them where there are too many; opens ports that could not be.
    pub(in crate::service) async fn tidy_links(&self) {
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
                warn!(error = &error as &dyn std::error::Error, "could not forget links that ended long ago");
            }
        }
    }
}
