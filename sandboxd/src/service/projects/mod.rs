//! Projects and their tokens: who may use the daemon besides the operator.
//!
//! All tokens are in memory, because each request is checked against them. A token is revoked in memory first: it ends at
//! once, also if the store cannot be written. Then the caller gets an error and has to try again, because a restart would
//! make the token valid again.

mod children;
mod issued;
mod revoked;
mod subjects;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use sandbox_api::TokenId;
use tokio::sync::Mutex;

pub use self::children::NewChild;
use self::issued::Issued;
use self::revoked::Revoked;
pub use self::tokens::{NewToken, random_text};
use super::{Authorized, ByOperator, Context, Error};
use crate::jwt::Verifier;
use crate::model::principal::Root;
use crate::model::{FieldError, Instance, Principal, ProjectName, ProjectRecord, Refusal, Resource, limits};
use crate::service::clock::now_ms;
use crate::store::Store;

/// Open connections, which end with their token.
pub trait Connections: fmt::Debug + Send + Sync {
    /// Closes those on which a request of a principal is served that is not admitted any more.
    fn close_unless(&self, is_admitted: &dyn Fn(&Principal) -> bool);
}

/// Creates projects and tokens, and checks tokens.
#[derive(Debug)]
pub struct Projects {
    store: Arc<Store>,
    instance: Arc<Instance>,
    projects: RwLock<BTreeMap<ProjectName, ProjectRecord>>,
    tokens: RwLock<BTreeMap<TokenId, Arc<Issued>>>,
    /// Held while a project or a token is added or removed.
    changing: Mutex<()>,
    connections: OnceLock<Weak<dyn Connections>>,
    revoked: Revoked,
    /// `None` accepts no JSON Web Tokens.
    jwt: Option<Arc<Verifier>>,
    /// The operator's keys of this run. What comes from former ones ends.
    keys: OnceLock<Vec<Root>>,
}

impl Projects {
    pub(in crate::service) async fn new(context: &Context) -> Result<Self, Error> {
        let store = Arc::clone(&context.store);
        let default = ProjectRecord { name: ProjectName::default(), created_at_ms: now_ms() };
        store.add_project(&default).await?;
        // One with the reserved name may be older than the reservation. It would show private repositories.
        let mut projects = store.projects().await?;
        projects.retain(|found| !found.name.is_reserved());
        let projects = projects.into_iter().map(|found| (found.name.clone(), found));
        let mut tokens = store.tokens().await?;
        tokens.retain(|found| !found.owner.project.is_reserved());
        let tokens = tokens.into_iter().map(|found| (found.id.clone(), Issued::new(found)));
        let jwt = match context.setup.jwt.clone() {
            Some(settings) => Some(Verifier::new(settings).await.map_err(|source| Error::KeySet { source })?),
            None => None,
        };
        if let Some(verifier) = jwt.clone() {
            let closing = context.tasks.closing().clone();
            // The daemon is ready without the keys: others can use it.
            tokio::spawn(async move { closing.run_until_cancelled(verifier.fetch()).await });
        }
        let revoked = Revoked::new(store.revoked_subjects().await?);
        Ok(Self {
            projects: RwLock::new(projects.collect()),
            tokens: RwLock::new(tokens.collect()),
            instance: Arc::clone(&context.instance),
            store,
            changing: Mutex::default(),
            revoked,
            jwt,
            connections: OnceLock::new(),
            keys: OnceLock::new(),
        })
    }

    /// Sets the connections that end with their token. Later calls have no effect.
    pub fn set_connections(&self, connections: Weak<dyn Connections>) {
        let _ = self.connections.set(connections);
    }

    /// Sets the operator's keys, from which child tokens may come. Later calls have no effect.
    pub fn set_keys(&self, keys: Vec<Root>) {
        let _ = self.keys.set(keys);
    }

    /// Principal of a token that the operator has not set, if it is valid.
    pub async fn principal_of(&self, given: &[u8]) -> Option<Arc<Principal>> {
        match self.principal_of_own(given) {
            None => self.principal_of_jwt(given).await,
            found => found,
        }
    }

    /// As [`Self::principal_of`], without waiting: for JSON Web Tokens, only keys are used that are known.
    pub fn principal_of_known(&self, given: &[u8]) -> Option<Arc<Principal>> {
        self.principal_of_own(given).or_else(|| self.principal_of_known_jwt(given))
    }

    /// Principal of a token that this daemon has issued.
    fn principal_of_own(&self, given: &[u8]) -> Option<Arc<Principal>> {
        self.principal_of_token(given).or_else(|| self.principal_of_child(given))
    }

    /// Whether requests of a principal are still served: its token has not expired, and was not revoked.
    pub fn admits(&self, principal: &Principal) -> bool {
        let is_in_time = principal.expires_at_ms.is_none_or(|end| now_ms() < end);
        let is_revoked = principal.issued_at_ms.is_some_and(|at| self.has_ended(&principal.owner, at));
        let has_root = || match &principal.root {
            Root::Token(id) => self.is_valid(id),
            Root::ToolToken => true,
            Root::Jwt => self.jwt.is_some(),
            Root::Operator(_) | Root::Front(_) => {
                self.keys.get().is_some_and(|keys| keys.contains(&principal.root))
            }
        };
        is_in_time && !is_revoked && has_root()
    }

    /// Closes the connections of principals that are not admitted any more.
    pub(in crate::service) fn close_ended(&self) {
        if let Some(connections) = self.connections.get().and_then(Weak::upgrade) {
            connections.close_unless(&|principal| self.admits(principal));
        }
    }

    /// Creates a project. Idempotent: returns one with the same name.
    pub async fn create(&self, name: ProjectName, _: &ByOperator) -> Result<ProjectRecord, Error> {
        self.add(name).await
    }

    async fn add(&self, name: ProjectName) -> Result<ProjectRecord, Error> {
        if name.is_reserved() {
            let problem = format!("must not be `{name}`, which is for the daemon itself");
            return Err(Refusal::from(FieldError::new("project", problem)).into());
        }
        let _changing = self.changing.lock().await;
        if let Some(found) = self.projects().get(&name) {
            return Ok(found.clone());
        }
        if self.projects().len() >= limits::MAX_PROJECTS {
            let value = limits::MAX_PROJECTS as u64;
            return Err(Refusal::LimitReached { limit: "projects".into(), value }.into());
        }
        let record = ProjectRecord { name: name.clone(), created_at_ms: now_ms() };
        self.store.add_project(&record).await?;
        write(&self.projects).insert(name, record.clone());
        Ok(record)
    }

    /// Adds the projects of sandboxes that were restored from the engine, because the database was lost.
    pub(in crate::service) async fn add_missing(&self, of: BTreeSet<ProjectName>) -> Result<(), Error> {
        for name in of.into_iter().filter(|name| !name.is_reserved()) {
            self.add(name).await?;
        }
        Ok(())
    }

    /// Up to `limit` projects that a principal can see, in the order of their names, after one of them, and whether there
    /// are more. Only the operator sees others than its own.
    pub fn list(
        &self,
        by: &Principal,
        after: Option<&ProjectName>,
        limit: usize,
    ) -> (Vec<ProjectRecord>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let projects = self.projects();
        let mut found = projects
            .range::<ProjectName, _>((from, Bound::Unbounded))
            .map(|(_, project)| project)
            .filter(|project| by.is_operator || project.name == by.owner.project);
        let page = found.by_ref().take(limit).cloned().collect();
        (page, found.next().is_some())
    }

    /// One project.
    pub fn get(&self, name: &Authorized<ProjectName>) -> Result<ProjectRecord, Error> {
        let found = self.projects().get(&**name).cloned();
        found.ok_or_else(|| Refusal::NotFound(Resource::Project).into())
    }

    /// Whether there is a project with this name.
    pub(in crate::service) fn exists(&self, name: &ProjectName) -> bool {
        self.projects().contains_key(name)
    }

    fn projects(&self) -> RwLockReadGuard<'_, BTreeMap<ProjectName, ProjectRecord>> {
        self.projects.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
