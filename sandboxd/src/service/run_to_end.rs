//! Commands of the daemon itself in a sandbox.

use futures::StreamExt;

use super::Error;
use crate::agent::{AgentHandle, ReaderId};
use crate::model::command::Stream;
use crate::model::{CommandSpec, Ended, Event};

/// How a command ended, and the beginnings of its outputs.
pub(in crate::service) struct Output {
    pub(in crate::service) ended: Ended,
    pub(in crate::service) stdout: Vec<u8>,
    pub(in crate::service) stderr: Vec<u8>,
}

/// Runs a command to its end. Keeps at most `max_bytes` of each output.
pub(in crate::service) async fn run_to_end(
    agent: &AgentHandle,
    spec: &CommandSpec,
    max_bytes: usize,
) -> Result<Output, Error> {
    let mut events = agent.run(spec, ReaderId::next()).await?;
    let mut output = Output { ended: Ended::LOST, stdout: Vec::new(), stderr: Vec::new() };
    while let Some(event) = events.next().await {
        match event? {
            Event::Output(records) => {
                for record in records {
                    let kept = match record.stream {
                        Stream::Stdout => &mut output.stdout,
                        Stream::Stderr => &mut output.stderr,
                        Stream::Trace | Stream::Stage => continue,
                    };
                    let left = max_bytes.saturating_sub(kept.len());
                    kept.extend_from_slice(&record.data[..record.data.len().min(left)]);
                }
            }
            Event::Ended { ended, .. } => {
                output.ended = ended;
                return Ok(output);
            }
            Event::Started(_) | Event::Gap { .. } | Event::Heartbeat => {}
        }
    }
    Ok(output)
}
