//! Child tokens: made from a token, and never wider than it.

use std::sync::Arc;
use std::time::Duration;

use super::Projects;
use crate::model::principal::Scope;
use crate::model::{ChildGrant, FieldError, Owner, Principal, Scopes, Subject, limits};
use crate::service::clock::now_ms;
use crate::service::{Authorized, Error};
use sandbox_api::SandboxId;

/// Properties of a child token to make.
#[derive(Debug, Clone, Default)]
pub struct NewChild {
    /// The subject that it is limited to. `None` is that of its parent.
    pub subject: Option<Subject>,
    /// What it permits. `None` is what its parent permits, without `manage`.
    pub scopes: Option<Scopes>,
    /// The only sandbox that it reaches. `None` is what its parent reaches.
    pub sandbox: Option<Authorized<SandboxId>>,
    /// How long it is valid. `None` is [`limits::DEFAULT_CHILD_TOKEN_TTL`], but not longer than its parent.
    pub ttl: Option<Duration>,
}

impl Projects {
    /// Makes a child token of a principal, which permits no more than that of the principal and does not outlive it. One for a
    /// single sandbox cannot permit `manage`, because a token that it creates would reach more.
    pub fn make_child(&self, by: &Principal, new: NewChild) -> Result<(String, ChildGrant), Error> {
        let ttl = new.ttl.unwrap_or(limits::DEFAULT_CHILD_TOKEN_TTL).as_millis() as i64;
        let parent_end = by.expires_at_ms.unwrap_or(i64::MAX);
        let issued_at_ms = now_ms();
        let end = issued_at_ms.saturating_add(ttl);
        let expires_at_ms = if new.ttl.is_none() { end.min(parent_end) } else { end };
        let grant = ChildGrant {
            root: by.root.clone(),
            token: by.token.to_string(),
            owner: Owner {
                project: by.owner.project.clone(),
                subject: new.subject.or_else(|| by.owner.subject.clone()),
            },
            scopes: new.scopes.unwrap_or(by.scopes.without_manage()),
            sandbox: new.sandbox.map(|id| (*id).clone()).or_else(|| by.sandbox.clone()),
            issued_at_ms,
            expires_at_ms,
        };
        if grant.sandbox.is_some() && grant.scopes.permit(Scope::Manage) {
            return Err(
                FieldError::new("scopes", "must not contain `manage` in a token for one sandbox").into()
            );
        }
        let is_within = grant.scopes.are_within(by.scopes)
            && !grant.scopes.is_empty()
            && by.owner.covers(&grant.owner)
            && expires_at_ms <= parent_end;
        let token = if is_within { grant.seal(&self.instance) } else { None };
        token.map(|token| (token, grant)).ok_or(Error::TokenTooWide)
    }

    /// Principal of a child token, if this daemon has made it and it is valid.
    pub(super) fn principal_of_child(&self, given: &[u8]) -> Option<Arc<Principal>> {
        let principal = Arc::new(ChildGrant::open(given, &self.instance)?.into_principal());
        self.admits(&principal).then_some(principal)
    }
}
