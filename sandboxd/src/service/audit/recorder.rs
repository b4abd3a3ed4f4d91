//! The lines of one act.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use serde::Serialize;

use super::Audit;
use super::owned::of_owner;
use crate::audit::Entry;
use crate::model::audit::Act;
use crate::model::context::RunSpec;
use crate::model::{CommandSpec, Owner, Principal, Secret};
use crate::service::Error;

/// Outcome of an act without error.
const OK: &str = "ok";

/// Outcome of an act whose caller left. The act may have been completed.
const ABANDONED: &str = "abandoned";

/// Writes the lines of one act: before it is done, and how it ended. If it is dropped in between, the outcome says that its
/// caller left.
#[derive(Debug)]
pub struct Recorder {
    audit: Arc<Audit>,
    act: Act,
    said: Entry,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Sequence number of the first line.
    begun: Option<u64>,
    /// What became known during the act.
    found: Entry,
    has_ended: bool,
}

impl Audit {
    /// Records an act of a request.
    pub fn of_request(self: &Arc<Self>, act: Act, by: &Principal, request_id: &str) -> Recorder {
        let said = Entry { request_id: Some(request_id.to_owned()), ..said_by(act, by) };
        Recorder::new(self, act, said)
    }

    /// Records an act of the daemon itself on a sandbox.
    pub(in crate::service) fn of_daemon(
        self: &Arc<Self>,
        act: Act,
        sandbox: &SandboxId,
        owner: &Owner,
        reason: &'static str,
    ) -> Recorder {
        let said = of_owner(act, Some(owner));
        Recorder::new(self, act, said.with("sandboxId", sandbox.as_str()).with("reason", reason))
    }
}

impl Recorder {
    fn new(audit: &Arc<Audit>, act: Act, said: Entry) -> Self {
        Self { audit: Arc::clone(audit), act, said, progress: Mutex::default() }
    }

    /// Adds what the act is about to all its lines.
    #[must_use]
    pub fn about(mut self, name: &str, value: impl Serialize) -> Self {
        self.said = std::mem::take(&mut self.said).with(name, value);
        self
    }

    /// Adds what became known during the act to the line with its outcome.
    pub fn found(&self, name: &str, value: impl Serialize) {
        let mut progress = self.progress();
        progress.found = std::mem::take(&mut progress.found).with(name, value);
    }

    /// Records that the act is about to be done. It must not be done if this fails.
    pub async fn begin(&self) -> Result<(), Error> {
        self.write(self.said.clone()).await
    }

    /// Records that a command is about to be started. A request may start several.
    pub(in crate::service) async fn begin_command(
        &self,
        spec: &CommandSpec,
        secrets: &[Secret],
    ) -> Result<(), Error> {
        self.write(self.audit.with_command(self.said.clone(), spec, secrets)).await
    }

    /// Records that code is about to be run.
    pub(in crate::service) async fn begin_run(
        &self,
        spec: &RunSpec,
        secrets: &[Secret],
    ) -> Result<(), Error> {
        self.write(self.audit.with_run(self.said.clone(), spec, secrets)).await
    }

    async fn write(&self, entry: Entry) -> Result<(), Error> {
        let seq = self.audit.begin(self.act, &entry).await?;
        self.progress().begun.get_or_insert(seq);
        Ok(())
    }

    /// Records how the act ended: without `code`, as intended. An act that was refused before it began has only this line.
    pub fn end(&self, code: Option<String>) {
        self.end_with(code.map_or(OK.into(), Into::into));
    }

    /// Records how the act ended, and returns that.
    pub(in crate::service) fn ended<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        self.end(done.as_ref().err().map(|error| error.to_public().code.to_string()));
        done
    }

    fn end_with(&self, outcome: std::borrow::Cow<'static, str>) {
        let mut progress = self.progress();
        if std::mem::replace(&mut progress.has_ended, true) {
            return;
        }
        let mut entry = match progress.begun {
            // The line of the beginning says the rest.
            Some(_) => Entry { details: Default::default(), ..self.said.clone() },
            None => self.said.clone(),
        };
        entry.details.extend(std::mem::take(&mut progress.found.details));
        entry.of = progress.begun;
        entry.outcome = Some(outcome);
        self.audit.note(entry);
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.progress().begun.is_some() {
            self.end_with(ABANDONED.into());
        }
    }
}

/// A line of an act by a principal.
fn said_by(act: Act, by: &Principal) -> Entry {
    Entry { token: Some(by.token.to_string()), ..of_owner(act, Some(&by.owner)) }
}
