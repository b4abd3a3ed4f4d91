//! Tokens of projects: created, checked, listed and revoked.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use std::time::Duration;

use sandbox_api::TokenId;

use super::issued::Issued;
use super::{Projects, write};
use crate::model::token::{TokenRecord, TokenText};
use crate::model::{Owner, Principal, ProjectName, Refusal, Scopes, Subject, limits};
use crate::service::clock::now_ms;
use crate::service::{Authorized, Error};

/// How long a token that has expired is listed, at least.
const EXPIRED_FOR_MS: i64 = 24 * 60 * 60 * 1000;

/// Properties of a token to create.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Display name.
    pub name: Option<String>,
    /// The subject that it is limited to.
    pub subject: Option<Subject>,
    /// What it permits.
    pub scopes: Scopes,
    /// Time after which it expires. `None` is never.
    pub ttl: Option<Duration>,
}

impl Projects {
    /// Principal of a token, if it is one of a project and valid.
    pub(super) fn principal_of_token(&self, given: &[u8]) -> Option<Arc<Principal>> {
        let given = TokenText::parse(given)?;
        let issued = self.tokens().get(&given.id).cloned()?;
        let now_ms = now_ms();
        if !given.is(&issued.record.digest, &self.instance) || !issued.is_valid(now_ms) {
            return None;
        }
        issued.last_used_ms.store(now_ms, Ordering::Relaxed);
        Some(Arc::clone(&issued.principal))
    }

    /// Creates a token, which permits no more than that of the principal and does not outlive it.
    pub async fn create_token(
        &self,
        project: &Authorized<ProjectName>,
        by: &Principal,
        new: NewToken,
    ) -> Result<(TokenText, TokenRecord), Error> {
        let _changing = self.changing.lock().await;
        let record = |id: TokenId, token: &TokenText| TokenRecord {
            id,
            owner: Owner { project: (**project).clone(), subject: new.subject.clone() },
            name: new.name.clone(),
            scopes: new.scopes,
            digest: token.digest(&self.instance),
            created_at_ms: now_ms(),
            expires_at_ms: new.ttl.map(|ttl| now_ms().saturating_add(ttl.as_millis() as i64)),
            last_used_ms: None,
        };
        let token = random_token()?;
        let record = record(token.id.clone(), &token);
        check_not_wider(by, &record)?;
        self.check_room(project).await?;
        self.store.add_token(&record).await?;
        write(&self.tokens).insert(record.id.clone(), Issued::new(record.clone()));
        Ok((token, record))
    }

    /// Fails if the project has the maximum number of tokens. Removes those that expired long ago first.
    async fn check_room(&self, project: &ProjectName) -> Result<(), Error> {
        let of = |issued: &&Arc<Issued>| issued.record.owner.project == *project;
        if self.tokens().values().filter(of).count() < limits::MAX_TOKENS {
            return Ok(());
        }
        let expired_before = now_ms() - EXPIRED_FOR_MS;
        let is_old = |issued: &&Arc<Issued>| issued.has_expired(expired_before);
        let old: Vec<TokenId> =
            self.tokens().values().filter(of).filter(is_old).map(|issued| issued.record.id.clone()).collect();
        for id in &old {
            self.store.remove_token(id).await?;
            write(&self.tokens).remove(id);
        }
        match old.is_empty() {
            false => Ok(()),
            true => {
                let value = limits::MAX_TOKENS as u64;
                Err(Refusal::LimitReached { limit: "tokens of a project".into(), value }.into())
            }
        }
    }

    /// Up to `limit` tokens of a project that a principal can see, in the order of their ids, after one of them, and whether
    /// there are more.
    pub fn list_tokens(
        &self,
        project: &Authorized<ProjectName>,
        by: &Principal,
        after: Option<&TokenId>,
        limit: usize,
    ) -> (Vec<TokenRecord>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let tokens = self.tokens();
        let mut found = tokens
            .range::<TokenId, _>((from, Bound::Unbounded))
            .map(|(_, issued)| issued)
            .filter(|issued| is_of(issued, project, by) && !issued.is_revoked.load(Ordering::Acquire));
        let page = found.by_ref().take(limit).map(|issued| issued.record()).collect();
        (page, found.next().is_some())
    }

    /// Revokes a token. From here on, requests with it fail, and its connections are closed. Idempotent: succeeds if there is
    /// no such token.
    pub async fn revoke_token(
        &self,
        project: &Authorized<ProjectName>,
        by: &Principal,
        id: &TokenId,
    ) -> Result<(), Error> {
        let found = self.tokens().get(id).cloned();
        let Some(issued) = found.filter(|issued| is_of(issued, project, by)) else { return Ok(()) };
        issued.is_revoked.store(true, Ordering::Release);
        self.close_ended();
        let _changing = self.changing.lock().await;
        self.store.remove_token(id).await?;
        write(&self.tokens).remove(id);
        Ok(())
    }

    /// Whether there is a token with this id that has not expired and was not revoked.
    pub fn is_valid(&self, id: &TokenId) -> bool {
        self.tokens().get(id).is_some_and(|issued| issued.is_valid(now_ms()))
    }

    /// Whether a token has expired since the last call.
    pub(in crate::service) fn note_expired(&self) -> bool {
        let now_ms = now_ms();
        let ends_now = |issued: &Arc<Issued>| {
            issued.has_expired(now_ms) && !issued.has_ended.swap(true, Ordering::AcqRel)
        };
        self.tokens().values().filter(|issued| ends_now(issued)).count() > 0
    }

    /// Writes when tokens were last used.
    pub(in crate::service) async fn write_last_uses(&self) -> Result<(), Error> {
        let all: Vec<Arc<Issued>> = self.tokens().values().cloned().collect();
        let used = |issued: &Arc<Issued>| {
            let at_ms = issued.last_used_ms.load(Ordering::Relaxed);
            (at_ms != issued.written_ms.load(Ordering::Relaxed)).then_some(at_ms)
        };
        let changed: Vec<(&Arc<Issued>, i64)> =
            all.iter().filter_map(|issued| Some((issued, used(issued)?))).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let rows: Vec<(TokenId, i64)> =
            changed.iter().map(|(issued, at_ms)| (issued.record.id.clone(), *at_ms)).collect();
        self.store.touch_tokens(&rows).await?;
        for (issued, at_ms) in changed {
            issued.written_ms.store(at_ms, Ordering::Relaxed);
        }
        Ok(())
    }

    fn tokens(&self) -> RwLockReadGuard<'_, BTreeMap<TokenId, Arc<Issued>>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a token belongs to the project and the principal can see it.
fn is_of(issued: &Issued, project: &ProjectName, by: &Principal) -> bool {
    let owner = &issued.record.owner;
    owner.project == *project && (by.is_operator || by.owner.covers(owner))
}

fn check_not_wider(by: &Principal, new: &TokenRecord) -> Result<(), Error> {
    if by.is_operator {
        return Ok(());
    }
    let outlives = by.expires_at_ms.is_some_and(|end| new.expires_at_ms.is_none_or(|new| new > end));
    let is_wider = !new.scopes.are_within(by.scopes) || !by.owner.covers(&new.owner) || by.sandbox.is_some();
    if is_wider || outlives {
        return Err(Error::TokenTooWide);
    }
    Ok(())
}

fn random_token() -> Result<TokenText, Error> {
    let id = TokenId::random().map_err(|source| Error::Randomness { source })?;
    Ok(TokenText::new(id, random()?))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|source| Error::Randomness { source })?;
    Ok(bytes)
}

/// A text of random hexadecimal digits, two for each byte.
pub fn random_text<const BYTES: usize>() -> Result<String, Error> {
    Ok(random::<BYTES>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}
