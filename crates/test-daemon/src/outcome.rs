//! What a command's stream told.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use sandbox_api::command::{EndReason, Output, Record, StartCommand};
use sandbox_client::Records;

/// A script with everything else by default.
pub fn script(script: &str) -> StartCommand {
    StartCommand { script: Some(script.into()), ..StartCommand::default() }
}

/// Everything a stream told.
#[derive(Debug)]
pub struct Outcome {
    /// Its bytes.
    pub stdout: Vec<u8>,
    /// Its bytes.
    pub stderr: Vec<u8>,
    /// Numbers of the records with output, in order.
    pub seqs: Vec<u64>,
    /// The sum of all gaps.
    pub dropped_bytes: u64,
    /// As a shell would report it.
    pub exit_code: i32,
    /// Why it ended.
    pub reason: EndReason,
    /// Which ended it.
    pub signal: Option<String>,
    /// What ended it together with others.
    pub killed_by: Option<String>,
    /// From start to end.
    pub duration_ms: u64,
}

impl Outcome {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
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

/// What a stream told so far.
#[derive(Debug, Default)]
pub struct Collected {
    /// Its bytes.
    pub stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Numbers of the records with output, in order.
    pub seqs: Vec<u64>,
    dropped_bytes: u64,
}

impl Collected {
    /// Adds a record; all of it at the end.
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
            Record::Gap { dropped_bytes, .. } => self.dropped_bytes += dropped_bytes,
            Record::Exit { exit_code, reason, signal, killed_by, duration_ms, .. } => {
                let Self { stdout, stderr, seqs, dropped_bytes } = std::mem::take(self);
                return Some(Outcome {
                    stdout,
                    stderr,
                    seqs,
                    dropped_bytes,
                    exit_code,
                    reason,
                    signal,
                    killed_by,
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
