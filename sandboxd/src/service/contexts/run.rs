//! The start of a run.

use std::sync::Arc;

use super::calls_of_run::CallsOfRun;
use super::stream::RunStream;
use super::{Contexts, Error};
use crate::model::Principal;
use crate::model::context::RunSpec;
use crate::service::Recorded;
use crate::service::lifecycle::InUseMark;

impl Contexts {
    /// Runs code, and streams what it reports. Never retried, because code must not run twice. Dropping the stream
    /// interrupts the run.
    pub async fn run(
        self: &Arc<Self>,
        id: &Recorded,
        by: &Arc<Principal>,
        spec: RunSpec,
    ) -> Result<RunStream, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let permit = in_use.sandbox().reader()?;
        let project = &in_use.sandbox().owner().project;
        let charge = self.quotas.command(project).inspect_err(|_| in_use.do_not_count())?;
        let events = in_use.agent().run_code(&spec).await?;
        self.quotas.count_command(project);
        // While the sandbox's order lock is held. Otherwise the sandbox could be parked in between.
        let mark = InUseMark::command(in_use.sandbox().activity(), false).holding(charge);
        self.snapshots.note_running(in_use.sandbox(), &spec.id, false);
        let calls = CallsOfRun::new(self, &in_use, &spec, by);
        Ok(RunStream::new(self, in_use, spec, events, calls, mark, permit))
    }
}
