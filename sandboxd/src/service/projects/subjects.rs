//! Subjects: those of JSON Web Tokens, and the end of all tokens of a subject.

use std::sync::Arc;

use super::Projects;
use crate::jwt::Identity;
use crate::model::principal::Root;
use crate::model::{Owner, Principal, ProjectName, RevokedSubject, Subject};
use crate::service::clock::now_ms;
use crate::service::{Authorized, Error};

/// Name of every JSON Web Token, for what surfaces keep apart by token. Its subject keeps it apart from others.
const JWT: &str = "jwt";

impl Projects {
    /// Principal of a JSON Web Token, if there are settings for them and it is valid.
    pub(super) async fn principal_of_jwt(&self, given: &[u8]) -> Option<Arc<Principal>> {
        let identity = self.jwt.as_ref()?.verify(given).await?;
        self.of_identity(&identity)
    }

    /// As [`Self::principal_of_jwt`], without a request for keys.
    pub(super) fn principal_of_known_jwt(&self, given: &[u8]) -> Option<Arc<Principal>> {
        let identity = self.jwt.as_ref()?.verify_with_known_keys(given)?;
        self.of_identity(&identity)
    }

    fn of_identity(&self, identity: &Identity) -> Option<Arc<Principal>> {
        let principal = Arc::new(Principal {
            owner: Owner { project: identity.project.clone(), subject: Some(identity.subject.clone()) },
            scopes: identity.scopes,
            token: JWT.into(),
            is_operator: false,
            is_for_tools: false,
            root: Root::Jwt,
            expires_at_ms: Some(identity.expires_at_ms),
            issued_at_ms: Some(identity.issued_at_ms),
            sandbox: None,
        });
        (self.exists(&identity.project) && self.admits(&principal)).then_some(principal)
    }

    /// Revokes the JSON Web Tokens and the child tokens of a subject that were issued until now. From here on, requests with
    /// them fail, and their connections are closed. Idempotent. Fails for a subject that the principal does not see.
    pub async fn revoke_subject(
        &self,
        project: &Authorized<ProjectName>,
        by: &Principal,
        subject: Subject,
    ) -> Result<(), Error> {
        let revoked = RevokedSubject { project: (**project).clone(), subject, until_ms: now_ms() };
        let owner = Owner { project: revoked.project.clone(), subject: Some(revoked.subject.clone()) };
        if !by.is_operator && !by.owner.covers(&owner) {
            return Err(Error::TokenTooWide);
        }
        let _changing = self.changing.lock().await;
        self.revoked.add(owner, revoked.until_ms)?;
        self.close_ended();
        self.store.revoke_subject(&revoked).await?;
        Ok(())
    }

    /// Whether what an owner made at a time, in milliseconds since the Unix epoch, ended when its subject was revoked.
    pub fn has_ended(&self, owner: &Owner, at_ms: i64) -> bool {
        self.revoked.includes(owner, at_ms)
    }
}
