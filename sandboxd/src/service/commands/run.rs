//! Streams of commands: of one that is started, and of the log of an earlier one.

use std::sync::Arc;

use sandbox_api::{CommandId, SandboxId};

use super::stream::{CommandStream, EndClaim};
use super::{Commands, Error, Known, with_env};
use crate::agent::{EventStream, ReaderId};
use crate::model::command::CommandStatus;
use crate::model::{CommandSpec, Event};
use crate::service::{Authorized, Recorded};

impl Commands {
    /// Starts a command and streams it from its start to its end. Dropping the stream ends the command, unless it is
    /// detached.
    pub async fn run(self: &Arc<Self>, id: &Recorded, spec: CommandSpec) -> Result<CommandStream, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let (permit, reader) = (in_use.sandbox().reader()?, ReaderId::next());
        let known = self.find_known(&in_use, &spec).await?;
        if let Some(Known::Gone(status)) = known {
            let stream = CommandStream::new(self, in_use, spec.id, reader, permit);
            return Ok(stream.for_history(replay_from_history(&status)));
        }
        let charge = self.charge_unless_known(&in_use, known.as_ref())?;
        let spec = with_env(spec, in_use.sandbox());
        let denied_before = in_use.sandbox().denied_attempts();
        let events = match in_use.agent().run(&spec, reader).await {
            Err(error) if error.is_broken() => in_use.agent().run(&spec, reader).await,
            other => other,
        };
        let events = in_use.count_if_accepted(events)?;
        // Created while the sandbox's order lock is held. Otherwise the sandbox could be parked in between.
        let end_claim = charge.map(|charge| EndClaim::new(in_use.sandbox(), spec.passive, charge));
        let stream = CommandStream::new(self, in_use, spec.id.clone(), reader, permit);
        Ok(match end_claim {
            Some(end_claim) => stream.for_started_command(events, spec, end_claim, denied_before),
            None => stream.for_repeated_request(events, &spec),
        })
    }

    /// Streams the kept records of a command after record `after`, and with `follow` new ones.
    pub async fn logs(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        command: &CommandId,
        after: u64,
        follow: bool,
    ) -> Result<CommandStream, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let (permit, reader) = (in_use.sandbox().reader()?, ReaderId::next());
        let events = match in_use.agent().attach(command, after, follow, reader).await {
            Err(error) if error.is_broken() => in_use.agent().attach(command, after, follow, reader).await?,
            other => other?,
        };
        let stream = CommandStream::new(self, in_use, command.clone(), reader, permit);
        Ok(stream.for_log(events, after, follow))
    }
}

/// Builds the stream of a command whose output is gone.
fn replay_from_history(status: &CommandStatus) -> EventStream {
    let dropped_bytes = status.stdout_bytes + status.stderr_bytes;
    let gap = (dropped_bytes > 0).then_some(Event::Gap { dropped_bytes, next_seq: 1 });
    let ended = status.ended.clone().map(|ended| Event::Ended { ended, checkpoint: None });
    let events = [Some(Event::Started(status.started)), gap, ended];
    Box::pin(futures::stream::iter(events.into_iter().flatten().map(Ok)))
}
