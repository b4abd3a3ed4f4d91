//! The result of a command's stream.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use sandbox_api::SnapshotId;
use sandbox_api::command::{
    EndReason, LimitExceeded, Output, PipelineStage, ReadOnlyViolation, Record, StageRecord, StartCommand,
};
use sandbox_client::Records;

/// Bytes of an output in the message of a failed test.
const SHOWN_BYTES: usize = 2000;

/// A script, with defaults for everything else.
pub fn script(script: &str) -> StartCommand {
    StartCommand { script: Some(script.into()), ..StartCommand::default() }
}

/// All results of a stream.
pub struct Outcome {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Commands that bash reported.
    pub trace: Vec<u8>,
    /// Stages of the last pipeline that were reported.
    pub stages: Vec<PipelineStage>,
    /// Numbers of the records with output, in order.
    pub seqs: Vec<u64>,
    /// The sum of all gaps.
    pub dropped_bytes: u64,
    /// As a shell would report it.
    pub exit_code: i32,
    /// Why the command ended.
    pub reason: EndReason,
    /// The signal that ended it, if any.
    pub signal: Option<String>,
    /// The event that ended it together with other commands, if any.
    pub killed_by: Option<String>,
    /// The limit that it has exceeded, if any.
    pub limit_exceeded: Option<LimitExceeded>,
    /// The first write that was refused because it is read-only, if any.
    pub read_only_violation: Option<ReadOnlyViolation>,
    /// How many connections the sandbox was denied meanwhile, if this is known.
    pub denials: Option<u64>,
    /// The snapshot that is made after it, if any.
    pub checkpoint_id: Option<SnapshotId>,
    /// Time from start to end.
    pub duration_ms: u64,
}

impl Outcome {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// With the output as text, for the message of a failed test.
impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("stdout", &start_of(&self.stdout))
            .field("stderr", &start_of(&self.stderr))
            .field("exit_code", &self.exit_code)
            .field("reason", &self.reason)
            .field("signal", &self.signal)
            .field("killed_by", &self.killed_by)
            .field("limit_exceeded", &self.limit_exceeded)
            .field("read_only_violation", &self.read_only_violation)
            .field("dropped_bytes", &self.dropped_bytes)
            .field("duration_ms", &self.duration_ms)
            .finish_non_exhaustive()
    }
}

fn start_of(output: &[u8]) -> String {
    String::from_utf8_lossy(&output[..output.len().min(SHOWN_BYTES)]).into_owned()
}

/// Reads a stream to its end.
pub async fn outcome(mut records: Records) -> Outcome {
    let mut collected = Collected::default();
    while let Some(record) = records.next().await {
        if let Some(outcome) = collected.take(record.unwrap()) {
            return outcome;
        }
    }
    panic!("the stream has no end record");
}

/// The results of a stream so far.
#[derive(Debug, Default)]
pub struct Collected {
    /// Standard output.
    pub stdout: Vec<u8>,
    stderr: Vec<u8>,
    trace: Vec<u8>,
    stages: Vec<PipelineStage>,
    /// Numbers of the records with output, in order.
    pub seqs: Vec<u64>,
    dropped_bytes: u64,
}

impl Collected {
    /// Adds a record. Returns everything at the end.
    pub fn take(&mut self, record: Record) -> Option<Outcome> {
        match record {
            Record::Stdout(output) => {
                self.seqs.push(output.seq);
                self.stdout.extend(bytes_of(&output));
            }
            Record::Stderr(output) => {
                self.seqs.push(output.seq);
                self.stderr.extend(bytes_of(&output));
            }
            Record::Trace(output) => {
                self.seqs.push(output.seq);
                self.trace.extend(bytes_of(&output));
            }
            Record::Stage(StageRecord { seq, stage }) => {
                self.seqs.push(seq);
                self.stages.push(stage);
            }
            Record::Gap { dropped_bytes, .. } => self.dropped_bytes += dropped_bytes,
            Record::Exit {
                exit_code,
                reason,
                signal,
                killed_by,
                limit_exceeded,
                read_only_violation,
                duration_ms,
                denials,
                checkpoint_id,
                ..
            } => {
                let Self { stdout, stderr, trace, stages, seqs, dropped_bytes } = std::mem::take(self);
                return Some(Outcome {
                    stdout,
                    stderr,
                    trace,
                    stages,
                    seqs,
                    dropped_bytes,
                    exit_code,
                    reason,
                    signal,
                    killed_by,
                    limit_exceeded,
                    read_only_violation,
                    denials,
                    checkpoint_id,
                    duration_ms,
                });
            }
            Record::Start { .. } | Record::Heartbeat => {}
        }
        None
    }
}

fn bytes_of(output: &Output) -> Vec<u8> {
    match &output.data_base64 {
        Some(base64) => BASE64_STANDARD.decode(base64).unwrap(),
        None => output.data.clone().into_bytes(),
    }
}
