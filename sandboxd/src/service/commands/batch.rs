//! Batches: several commands for one caller, one after another or a few at a time.
//!
//! A batch lives in its request. If the caller disconnects, the running commands end, unless they are detached, and no
//! other starts. Only the end of each command's output is kept, within one bound for the whole batch.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sandbox_api::CommandId;

use super::{Commands, Error};
use crate::model::command::Stream;
use crate::model::{CommandSpec, Ended, Event, Tail, limits};
use crate::service::Recorded;

/// How the commands of a batch follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOrder {
    /// Maximum number of commands that run at the same time.
    pub parallel: usize,
    /// Whether commands start after a failure.
    pub continue_on_error: bool,
}

/// Result of one command of a batch.
#[derive(Debug)]
pub struct CommandResult {
    /// Id of the command.
    pub command: CommandId,
    /// How it ended, or why it was not started.
    pub outcome: Result<CommandOutput, Error>,
}

/// How a command ended, and the end of its output.
#[derive(Debug)]
pub struct CommandOutput {
    /// How it ended.
    pub ended: Ended,
    /// End of its standard output.
    pub stdout: Tail,
    /// End of its standard error.
    pub stderr: Tail,
    /// End of its trace, if it was requested.
    pub trace: Option<Tail>,
}

impl CommandResult {
    fn failed(&self) -> bool {
        !matches!(&self.outcome, Ok(ran) if ran.ended.exit_code == 0)
    }
}

impl Commands {
    /// Starts commands in order and returns when the last one has ended. Dropping the future ends the running commands,
    /// unless they are detached, and starts no other.
    pub async fn run_batch(
        self: &Arc<Self>,
        id: &Recorded,
        specs: Vec<CommandSpec>,
        order: BatchOrder,
    ) -> Result<Vec<CommandResult>, Error> {
        // The mark is held to the end, so that the sandbox is not parked between two commands.
        let (_sandbox, _agent, _mark) = self.lifecycle.in_use(id).await?.unlock();
        let mut results: Vec<Option<CommandResult>> = specs.iter().map(|_| None).collect();
        let mut waiting = specs.into_iter().enumerate();
        let mut running = FuturesUnordered::new();
        let mut stopped = false;
        loop {
            while !stopped && running.len() < order.parallel {
                let Some((at, spec)) = waiting.next() else { break };
                running.push(async move { (at, self.run_one(id, spec).await) });
            }
            let Some((at, ran)) = running.next().await else { break };
            stopped |= ran.failed() && !order.continue_on_error;
            results[at] = Some(ran);
            keep_within(results.iter_mut().flatten(), limits::MAX_BATCH_BYTES);
        }
        Ok(results.into_iter().flatten().collect())
    }

    async fn run_one(self: &Arc<Self>, id: &Recorded, spec: CommandSpec) -> CommandResult {
        let command = spec.id.clone();
        CommandResult { command, outcome: self.run_to_end(id, spec).await }
    }

    async fn run_to_end(self: &Arc<Self>, id: &Recorded, spec: CommandSpec) -> Result<CommandOutput, Error> {
        let is_traced = spec.debug;
        let mut events = std::pin::pin!(self.run(id, spec).await?.into_events());
        let mut stdout = Tail::new(limits::MAX_BATCH_OUTPUT_BYTES);
        let mut stderr = Tail::new(limits::MAX_BATCH_OUTPUT_BYTES);
        let mut trace = Tail::new(limits::MAX_BATCH_OUTPUT_BYTES);
        let mut ended = Ended::LOST;
        while let Some(event) = events.next().await {
            match event {
                Event::Output(records) => {
                    for record in records {
                        match record.stream {
                            Stream::Stdout => stdout.push(&record.data),
                            Stream::Stderr => stderr.push(&record.data),
                            Stream::Trace => trace.push(&record.data),
                            // A batch has no reports of stages.
                            Stream::Stage => {}
                        }
                    }
                }
                Event::Ended { ended: end, .. } => ended = end,
                // The end has its own count of missed bytes.
                Event::Started(_) | Event::Gap { .. } | Event::Heartbeat => {}
            }
        }
        Ok(CommandOutput { ended, stdout, stderr, trace: is_traced.then_some(trace) })
    }
}

/// Truncates outputs to `limit` bytes in total, the earliest first. The last command is the one that may have failed, so
/// its output matters most.
fn keep_within<'a>(results: impl Iterator<Item = &'a mut CommandResult>, limit: usize) {
    let ended = results.filter_map(|ran| ran.outcome.as_mut().ok());
    let mut tails: Vec<&mut Tail> =
        ended.flat_map(|ran| [&mut ran.stdout, &mut ran.stderr].into_iter().chain(&mut ran.trace)).collect();
    let kept: usize = tails.iter().map(|tail| tail.kept().len()).sum();
    let mut excess = kept.saturating_sub(limit);
    for tail in &mut tails {
        if excess == 0 {
            return;
        }
        let before = tail.kept().len();
        tail.cut_to(before.saturating_sub(excess));
        excess = excess.saturating_sub(before - tail.kept().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(stdout: &str) -> CommandResult {
        let mut tail = Tail::new(100);
        tail.push(stdout.as_bytes());
        let outcome =
            Ok(CommandOutput { ended: Ended::LOST, stdout: tail, stderr: Tail::new(100), trace: None });
        CommandResult { command: "cmd_0123456789abcdef".parse().unwrap(), outcome }
    }

    #[test]
    fn the_earliest_outputs_are_truncated_first() {
        let mut results = [ran("first"), ran("second"), ran("third")];
        keep_within(results.iter_mut(), 9);
        let kept = results.map(|ran| {
            let stdout = ran.outcome.unwrap().stdout;
            (String::from_utf8(stdout.kept().to_vec()).unwrap(), stdout.cut_bytes())
        });
        assert_eq!(kept, [("".into(), 5), ("cond".into(), 2), ("third".into(), 0)]);
    }
}
