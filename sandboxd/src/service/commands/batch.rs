//! Commands that run one after another for one caller.

use std::sync::Arc;

use futures::StreamExt;
use sandbox_api::{CommandId, SandboxId};

use super::{Commands, Error};
use crate::model::command::Stream;
use crate::model::{CommandSpec, Ended, Event, Tail, limits};

/// What became of one command of a batch.
#[derive(Debug)]
pub struct Ran {
    /// Its id.
    pub command: CommandId,
    /// How it ended, or why it was not started.
    pub outcome: Result<RanToEnd, Error>,
}

/// The end of a command and the end of what it wrote.
#[derive(Debug)]
pub struct RanToEnd {
    /// How it ended.
    pub ended: Ended,
    /// The last of what it wrote.
    pub stdout: Tail,
    /// The last of what it wrote.
    pub stderr: Tail,
}

impl Ran {
    fn failed(&self) -> bool {
        !matches!(&self.outcome, Ok(ran) if ran.ended.exit_code == 0)
    }
}

impl Commands {
    /// Runs commands in order and answers when the last one has ended; stops after the first that fails, unless
    /// `go_on`. Dropping it ends the one that runs, unless that is detached, and starts no other.
    pub async fn run_batch(
        self: &Arc<Self>,
        id: &SandboxId,
        specs: Vec<CommandSpec>,
        go_on: bool,
    ) -> Result<Vec<Ran>, Error> {
        // Held to the end, so that the sandbox is not parked between two of them.
        let (_sandbox, _agent, _mark) = self.lifecycle.in_use(id).await?.unlock();
        let mut results = Vec::with_capacity(specs.len());
        for spec in specs {
            let command = spec.id.clone();
            let ran = Ran { command, outcome: self.run_to_end(id, spec).await };
            let stop = ran.failed() && !go_on;
            results.push(ran);
            keep_within(&mut results, limits::MAX_BATCH_BYTES);
            if stop {
                break;
            }
        }
        Ok(results)
    }

    async fn run_to_end(self: &Arc<Self>, id: &SandboxId, spec: CommandSpec) -> Result<RanToEnd, Error> {
        let mut events = std::pin::pin!(self.run(id, spec).await?.into_events());
        let mut stdout = Tail::new(limits::MAX_BATCH_OUTPUT_BYTES);
        let mut stderr = Tail::new(limits::MAX_BATCH_OUTPUT_BYTES);
        let mut ended = Ended::LOST;
        while let Some(event) = events.next().await {
            match event {
                Event::Output(records) => {
                    for record in records {
                        match record.stream {
                            Stream::Stdout => stdout.push(&record.data),
                            Stream::Stderr => stderr.push(&record.data),
                        }
                    }
                }
                Event::Ended(end) => ended = end,
                // What was missed is in the end's own count.
                Event::Started(_) | Event::Gap { .. } | Event::Heartbeat => {}
            }
        }
        Ok(RanToEnd { ended, stdout, stderr })
    }
}

/// Cuts what the earliest commands wrote until all of it is within `limit`: the last one is the one that failed.
fn keep_within(results: &mut [Ran], limit: usize) {
    let ended = results.iter_mut().filter_map(|ran| ran.outcome.as_mut().ok());
    let mut tails: Vec<&mut Tail> = ended.flat_map(|ran| [&mut ran.stdout, &mut ran.stderr]).collect();
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

    fn ran(stdout: &str) -> Ran {
        let mut tail = Tail::new(100);
        tail.push(stdout.as_bytes());
        let outcome = Ok(RanToEnd { ended: Ended::LOST, stdout: tail, stderr: Tail::new(100) });
        Ran { command: "cmd_0123456789abcdef".parse().unwrap(), outcome }
    }

    #[test]
    fn the_earliest_give_way_to_the_last() {
        let mut results = [ran("first"), ran("second"), ran("third")];
        keep_within(&mut results, 9);
        let told = results.map(|ran| {
            let stdout = ran.outcome.unwrap().stdout;
            (String::from_utf8(stdout.kept().to_vec()).unwrap(), stdout.cut_bytes())
        });
        assert_eq!(told, [("".into(), 5), ("cond".into(), 2), ("third".into(), 0)]);
    }
}
