//! The service as the principal of a request reaches it.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use sandbox_api::{SandboxId, SnapshotId, TokenId};
use serde::Serialize;

use super::{Authorized, ByOperator, Error, Recorded, Recorder, Service};
use crate::model::context::RunSpec;
use crate::model::{CommandSpec, Limits, Owner, Principal, ProjectName, Refusal, Resource, Subject};

/// The service, for one principal.
#[derive(Debug, Clone)]
pub struct Access {
    service: Arc<Service>,
    principal: Arc<Principal>,
    /// Records the act of the request, if it is one that the audit record has.
    recorder: Option<Arc<Recorder>>,
}

impl Access {
    /// The service for the principal of a request.
    pub fn new(service: &Arc<Service>, principal: Arc<Principal>, recorder: Option<Arc<Recorder>>) -> Self {
        Self { service: Arc::clone(service), principal, recorder }
    }

    /// The principal.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The principal, to keep.
    pub fn shared_principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Whom what the principal creates belongs to.
    pub fn owner(&self) -> &Owner {
        &self.principal.owner
    }

    /// Whom what the principal creates belongs to. Fails if it can reach a single sandbox only.
    pub fn creator(&self) -> Result<&Owner, Error> {
        if self.principal.sandbox.is_some() { Err(Error::OneSandboxOnly) } else { Ok(self.owner()) }
    }

    /// The only sandbox that the principal can reach. `None` is every one of its owner.
    pub fn only_sandbox(&self) -> Option<&SandboxId> {
        self.principal.sandbox.as_ref()
    }

    /// Whether the token of the principal is not for another sandbox.
    pub fn reaches(&self, id: &SandboxId) -> bool {
        self.only_sandbox().is_none_or(|only| only == id)
    }

    /// Whether the principal can see what belongs to a sandbox of an owner.
    fn covers(&self, id: &SandboxId, owner: &Owner) -> bool {
        self.owner().covers(owner) && self.reaches(id)
    }

    /// Bounds that the operator sets, for everyone and for the principal's project.
    pub fn limits(&self) -> Limits {
        let mut limits = self.service.limits();
        if let Some(timeout) = self.service.quotas.command_timeout(&self.owner().project) {
            limits.max_command_timeout = limits.max_command_timeout.min(timeout);
        }
        limits
    }

    /// Authorizes a sandbox. One of another owner is reported as not found, like one that does not exist.
    pub fn sandbox(&self, id: SandboxId) -> Result<Authorized<SandboxId>, Error> {
        let sandbox = self.service.lifecycle.find(&id)?;
        match self.covers(&id, sandbox.owner()) {
            true => Ok(Authorized::new(id)),
            false => Err(Refusal::NotFound(Resource::Sandbox).into()),
        }
    }

    /// As [`Self::sandbox`], for what succeeds without a sandbox.
    pub fn sandbox_if_any(&self, id: SandboxId) -> Result<Option<Authorized<SandboxId>>, Error> {
        match self.service.lifecycle.registered(&id) {
            Some(sandbox) if self.covers(&id, sandbox.owner()) => Ok(Some(Authorized::new(id))),
            // Until the start is complete, sandboxes of the previous run may be missing.
            _ => self.service.lifecycle.prepared().map(|_| None),
        }
    }

    /// Authorizes a project. One that the principal does not belong to is reported as not found, except to the operator.
    pub fn project(&self, name: ProjectName) -> Result<Authorized<ProjectName>, Error> {
        let may_see = self.principal.is_operator || self.owner().project == name;
        match may_see && self.service.projects.exists(&name) {
            true => Ok(Authorized::new(name)),
            false => Err(Refusal::NotFound(Resource::Project).into()),
        }
    }

    /// Authorizes a snapshot. One of another owner is reported as not found, like one that does not exist.
    pub async fn snapshot(&self, id: SnapshotId) -> Result<Authorized<SnapshotId>, Error> {
        let record = self.service.snapshots.record(&id).await?;
        match self.covers(&record.sandbox, &record.owner) {
            true => Ok(Authorized::new(id)),
            false => Err(Refusal::NotFound(Resource::Snapshot).into()),
        }
    }

    /// Records the commands that a request is about to start.
    pub async fn record_commands(
        &self,
        sandbox: Authorized<SandboxId>,
        specs: &[CommandSpec],
    ) -> Result<Recorded, Error> {
        let recorder = self.recorder.as_ref().ok_or(Error::Unrecorded)?;
        let found = self.service.lifecycle.find(&sandbox)?;
        for spec in specs {
            let secrets = found.with_spec(|of_sandbox| of_sandbox.secrets_beside(&spec.env));
            recorder.begin_command(spec, &secrets).await?;
        }
        Ok(Recorded::new(sandbox))
    }

    /// Records code that a request is about to run.
    pub async fn record_run(
        &self,
        sandbox: Authorized<SandboxId>,
        spec: &RunSpec,
    ) -> Result<Recorded, Error> {
        let recorder = self.recorder.as_ref().ok_or(Error::Unrecorded)?;
        let found = self.service.lifecycle.find(&sandbox)?;
        let secrets = found.with_spec(|of_sandbox| of_sandbox.secrets_beside(&HashMap::new()));
        recorder.begin_run(spec, &secrets).await?;
        Ok(Recorded::new(sandbox))
    }

    /// Revokes a token, and ends the links that it has made. This is completed also if the caller leaves: otherwise a token
    /// would be revoked in memory and valid after the next start.
    pub async fn revoke_token(&self, project: Authorized<ProjectName>, id: TokenId) -> Result<(), Error> {
        let (service, by) = (Arc::clone(&self.service), Arc::clone(&self.principal));
        let revoke = async move { service.revoke_token(&project, &by, &id).await };
        self.service.context.tasks.run_detached(revoke).await
    }

    /// Revokes the JSON Web Tokens and the child tokens of a subject, and ends the links to its sandboxes. This is completed
    /// also if the caller leaves.
    pub async fn revoke_subject(
        &self,
        project: Authorized<ProjectName>,
        subject: Subject,
    ) -> Result<(), Error> {
        let (service, by) = (Arc::clone(&self.service), Arc::clone(&self.principal));
        let revoke = async move { service.revoke_subject(&project, &by, subject).await };
        self.service.context.tasks.run_detached(revoke).await
    }

    /// Adds what became known during the act of the request to its line in the audit record.
    pub fn found(&self, name: &str, value: impl Serialize) {
        if let Some(recorder) = &self.recorder {
            recorder.found(name, value);
        }
    }

    /// Proves that the principal is the operator.
    pub fn by_operator(&self) -> Result<ByOperator, Error> {
        if self.principal.is_operator { Ok(ByOperator::new()) } else { Err(Error::OperatorOnly) }
    }
}

impl Deref for Access {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}
