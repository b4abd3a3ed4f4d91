//! What a call has read of a command: the end or the beginning of its output, and how it ended.

use std::borrow::Cow;

use output_text::{Excerpt, Keep};
use sandbox_api::command::{EndReason, Output, PipelineStage, Record, StageRecord};
use sandbox_api::{CommandId, SandboxId};

use crate::input::OutputPart;
use crate::progress::LastLine;
use crate::{Error, kept, output};

/// Maximum number of characters of standard output, and of standard error. A result has its output twice, as text and
/// as JSON: about 20,000 tokens together, and less than 700 KiB even if every character is escaped.
pub(crate) const MAX_STDOUT_CHARS: usize = 20_000;
pub(crate) const MAX_STDERR_CHARS: usize = 10_000;

/// What a result has of a long output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    keep: Keep,
    max_chars: usize,
}

impl Kept {
    /// Checks what a call requests.
    pub(super) fn of(part: Option<OutputPart>) -> Result<Self, Error> {
        let part = part.unwrap_or_default();
        let keep = part.keep.map_or(Keep::Both, Keep::from);
        let max_chars = kept::requested_chars(part.max_chars, part.max_tokens, MAX_STDOUT_CHARS)?;
        Ok(Self { keep, max_chars })
    }
}

/// How a command ended.
pub(super) struct Ended {
    pub(super) exit_code: i32,
    pub(super) reason: EndReason,
    pub(super) signal: Option<String>,
    pub(super) duration_ms: u64,
    pub(super) output_path: Option<String>,
    pub(super) output_complete: Option<bool>,
    pub(super) limit_exceeded: Option<output::LimitExceeded>,
    pub(super) read_only_violation: Option<output::ReadOnlyViolation>,
    /// Whether the sandbox may have been denied a connection since the command started.
    pub(super) may_be_denied: bool,
}

/// What was read of a command.
pub(super) struct Reading {
    pub(super) sandbox: SandboxId,
    pub(super) command: CommandId,
    /// Sequence number of the last record before the call.
    pub(super) start: u64,
    /// Sequence number of the last record.
    pub(super) position: u64,
    pub(super) stdout: Excerpt,
    pub(super) stderr: Excerpt,
    /// The commands that bash runs, if they are reported.
    pub(super) trace: Excerpt,
    pub(super) stages: Vec<PipelineStage>,
    pub(super) last_line: LastLine,
    /// Whether the daemon no longer had a part of the output.
    pub(super) is_incomplete: bool,
}

impl Reading {
    pub(super) fn new(sandbox: &SandboxId, command: CommandId, position: u64, kept: Kept) -> Self {
        let Kept { keep, max_chars } = kept;
        Self {
            sandbox: sandbox.clone(),
            command,
            start: position,
            position,
            stdout: Excerpt::new(keep, max_chars),
            stderr: Excerpt::new(keep, max_chars.min(MAX_STDERR_CHARS)),
            trace: Excerpt::new(keep, max_chars.min(MAX_STDERR_CHARS)),
            stages: Vec::new(),
            last_line: LastLine::default(),
            is_incomplete: false,
        }
    }

    /// Adds a record. Returns the end of the command.
    pub(super) fn add(&mut self, record: Record) -> Option<Ended> {
        match record {
            Record::Stdout(output) => {
                self.position = output.seq;
                add(&mut self.stdout, &mut self.last_line, &output);
            }
            Record::Stderr(output) => {
                self.position = output.seq;
                add(&mut self.stderr, &mut self.last_line, &output);
            }
            Record::Trace(output) => {
                self.position = output.seq;
                self.trace.push(&bytes_of(&output));
            }
            Record::Stage(StageRecord { seq, stage }) => {
                self.position = seq;
                self.stages.push(stage);
            }
            Record::Gap { dropped_bytes, next_seq } => {
                self.position = next_seq.saturating_sub(1);
                self.is_incomplete = true;
                self.stdout.note_lost(dropped_bytes);
            }
            Record::Exit {
                exit_code,
                signal,
                reason,
                duration_ms,
                output_path,
                output_complete,
                denials,
                limit_exceeded,
                read_only_violation,
                ..
            } => {
                let may_be_denied = denials != Some(0);
                return Some(Ended {
                    exit_code,
                    reason,
                    signal,
                    duration_ms,
                    output_path,
                    output_complete,
                    limit_exceeded: limit_exceeded.map(output::LimitExceeded::from),
                    read_only_violation: read_only_violation.map(output::ReadOnlyViolation::from),
                    may_be_denied,
                });
            }
            Record::Start { .. } | Record::Heartbeat => {}
        }
        None
    }
}

fn add(excerpt: &mut Excerpt, last_line: &mut LastLine, output: &Output) {
    excerpt.push(&bytes_of(output));
    last_line.push(&output.data);
}

/// The bytes that a command has written. The text has replacement characters for bytes that are not UTF-8, which the
/// model would get anyway. But the end of a record may be within a character.
pub(crate) fn bytes_of(output: &Output) -> Cow<'_, [u8]> {
    match output.data_base64.as_deref().map(decode) {
        Some(Some(bytes)) => bytes.into(),
        _ => output.data.as_bytes().into(),
    }
}

fn decode(base64: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.decode(base64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeptPart;

    #[test]
    fn what_is_kept_is_checked() {
        let part = |max_chars, max_tokens| OutputPart { keep: Some(KeptPart::Tail), max_chars, max_tokens };
        let chars = |part| Kept::of(part).map(|kept| kept.max_chars);
        assert_eq!(chars(None).unwrap(), MAX_STDOUT_CHARS);
        assert_eq!(chars(Some(part(Some(7), None))).unwrap(), 7);
        assert_eq!(chars(Some(part(None, Some(5000)))).unwrap(), MAX_STDOUT_CHARS);
        for (max_chars, max_tokens, named) in [
            (Some(0), None, "output.maxChars"),
            (Some(20_001), None, "from 1 to 20000"),
            (None, Some(5001), "from 1 to 5000"),
            (Some(1), Some(1), "both maxChars and maxTokens"),
        ] {
            let error = chars(Some(part(max_chars, max_tokens))).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
