//! Handler that runs a command to its end: converts between wire and model types, and shortens the output.

use futures::StreamExt;
use output_text::{Excerpt, Keep, Shown};
use sandbox_api::command::{CommandRan, EndReason, OutputOptions, PipelineStage, RunCommand, Script};
use sandbox_api::{CommandId, SnapshotId};

use super::body::Json;
use super::caller::User;
use super::command::spec_of;
use super::command_body::CommandBody;
use super::error::Result;
use super::ndjson::pipeline_stage;
use super::openapi::InSandbox;
use super::openapi::answers::*;
use super::params::{self, Path};
use crate::model::command::{Record, Stream, signal_name};
use crate::model::field::checked;
use crate::model::{CommandSpec, Ended, Event, FieldError, layout, limits};
use crate::service::{Access, Recorded};

/// Which part of an output to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    keep: Keep,
    max_chars: usize,
}

impl Limit {
    /// An output of at most this many bytes is not cut, because a text never has more characters than bytes.
    pub(super) fn bytes(self) -> u64 {
        self.max_chars as u64
    }
}

/// Output and end of a command.
struct Reading {
    stdout: Excerpt,
    stderr: Excerpt,
    trace: Excerpt,
    stages: Vec<PipelineStage>,
    dropped_bytes: u64,
    received_bytes: u64,
    ended: Ended,
    /// The snapshot that is made after the command.
    checkpoint: Option<SnapshotId>,
}

/// Run a command to its end.
///
/// Responds when the command has ended, with its output as text for a language model: without colours and overwritten
/// lines, and not longer than `output` allows. If a part is omitted, the whole output is in a file of the sandbox.
/// Closing the connection ends the command, unless it is `detached`. A plain text body (`text/plain`) is a script.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/commands:run", operation_id = "runCommand", tag = "commands",
    params(InSandbox),
    request_body(content((RunCommand = "application/json"), (Script = "text/plain"))),
    responses((status = 200, body = CommandRan), ByName, ByBody, BySandbox))]
pub(super) async fn run(
    User(access): User,
    Path(id): Path<String>,
    CommandBody(request): CommandBody<RunCommand>,
) -> Result<Json<CommandRan>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let limit = limit_of(request.output.unwrap_or_default())?;
    let output_file_after = Some(limit.bytes());
    let spec = CommandSpec { output_file_after, ..spec_of(request.command, access.limits())? };
    let id = access.record_commands(id, std::slice::from_ref(&spec)).await?;
    Ok(Json(run_to_end(&access, &id, spec, limit).await?))
}

/// Runs a command and shortens its output.
pub(super) async fn run_to_end(
    access: &Access,
    id: &Recorded,
    spec: CommandSpec,
    limit: Limit,
) -> Result<CommandRan> {
    let (command, is_traced, has_stages) = (spec.id.clone(), spec.debug, spec.stages.is_some());
    let stream = access.commands().run(id, spec).await?;
    let reading = read(stream.into_events(), limit).await;
    let ran = to_wire(command, &reading, is_traced);
    Ok(CommandRan { stages: has_stages.then_some(reading.stages), ..ran })
}

/// Checks the options.
pub(super) fn limit_of(options: OutputOptions) -> Result<Limit> {
    let keep = match options.keep.as_deref() {
        None | Some("both") => Keep::Both,
        Some("head") => Keep::Head,
        Some("tail") => Keep::Tail,
        Some(_) => return Err(FieldError::new("output.keep", "must be head, tail or both").into()),
    };
    let max_chars = match (options.max_chars, options.max_tokens) {
        (None, None) => limits::DEFAULT_OUTPUT_CHARS,
        (Some(chars), None) => checked("output.maxChars", chars, 1..=limits::MAX_OUTPUT_CHARS)?,
        (None, Some(tokens)) => {
            checked("output.maxTokens", tokens, 1..=limits::MAX_OUTPUT_TOKENS)? * limits::CHARS_PER_TOKEN
        }
        (Some(_), Some(_)) => {
            return Err(FieldError::new("output.maxTokens", "must not be combined with maxChars").into());
        }
    };
    Ok(Limit { keep, max_chars: max_chars as usize })
}

impl Reading {
    fn add(&mut self, record: &Record, limit: Limit) {
        let excerpt = match record.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
            Stream::Trace => return self.trace.push(&record.data),
            // The sandbox decides how many there are.
            Stream::Stage if self.stages.len() == limits::MAX_STAGES => return,
            Stream::Stage => return self.stages.extend(stage(record, limit)),
        };
        self.received_bytes += record.data.len() as u64;
        excerpt.push(&record.data);
    }
}

/// A stage with the beginning of its output as text.
fn stage(record: &Record, limit: Limit) -> Option<PipelineStage> {
    let end = record.stage.as_ref()?;
    let mut excerpt = Excerpt::new(Keep::Head, limit.max_chars);
    excerpt.push(&record.data);
    excerpt.finish();
    let Shown { head, omitted, .. } = excerpt.shown();
    let stage = pipeline_stage(end, end.output_bytes.map(|_| head), record.data.len());
    Some(PipelineStage { truncated: stage.truncated || !omitted.is_nothing(), ..stage })
}

async fn read(events: impl futures::Stream<Item = Event>, limit: Limit) -> Reading {
    let excerpt = || Excerpt::new(limit.keep, limit.max_chars);
    let mut reading = Reading {
        stdout: excerpt(),
        stderr: excerpt(),
        trace: excerpt(),
        stages: Vec::new(),
        dropped_bytes: 0,
        received_bytes: 0,
        ended: Ended::LOST,
        checkpoint: None,
    };
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Event::Output(records) => {
                records.iter().for_each(|record| reading.add(record, limit));
            }
            Event::Gap { dropped_bytes, .. } => {
                reading.dropped_bytes += dropped_bytes;
                reading.stdout.note_lost(dropped_bytes);
            }
            Event::Ended { ended, checkpoint } => {
                (reading.ended, reading.checkpoint) = (ended, checkpoint);
            }
            Event::Started(_) | Event::Heartbeat => {}
        }
    }
    reading.stdout.finish();
    reading.stderr.finish();
    reading.trace.finish();
    reading
}

fn to_wire(command_id: CommandId, reading: &Reading, is_traced: bool) -> CommandRan {
    let Reading { dropped_bytes, ended, .. } = reading;
    let (stdout, stderr) = (reading.stdout.shown(), reading.stderr.shown());
    let is_cut = |shown: &Shown| !shown.omitted.is_nothing();
    // A command whose sandbox stopped has an end without counts, or one that was recorded after output was lost.
    let is_all_received =
        ended.reason != EndReason::Lost && reading.received_bytes >= ended.stdout_bytes + ended.stderr_bytes;
    let is_whole = is_all_received && !is_cut(&stdout) && !is_cut(&stderr) && *dropped_bytes == 0;
    let output_path = ended.output_file.map(|_| layout::output_path(&command_id));
    let location = output_path.as_deref();
    CommandRan {
        exit_code: ended.exit_code,
        signal: ended.signal.map(signal_name),
        reason: ended.reason,
        duration_ms: ended.duration.as_millis() as u64,
        stdout: stdout.with_notice(location),
        stderr: stderr.with_notice(location),
        trace: is_traced.then(|| reading.trace.shown().with_notice(None)),
        stages: None,
        truncated: !is_whole,
        dropped_bytes: *dropped_bytes,
        output_complete: is_whole || ended.output_file.is_some_and(|file| file.is_complete),
        output_path,
        killed_by: ended.killed_by.map(|by| by.as_str().into()),
        limit_exceeded: ended.exceeded.map(Into::into),
        read_only_violation: ended.read_only_violation.clone().map(Into::into),
        checkpoint_id: reading.checkpoint.clone(),
        command_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(
        keep: Option<&str>,
        max_chars: Option<u64>,
        max_tokens: Option<u64>,
    ) -> std::result::Result<Limit, String> {
        let options = OutputOptions { keep: keep.map(str::to_owned), max_chars, max_tokens };
        limit_of(options).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_keeps_both_ends() {
        let max_chars = limits::DEFAULT_OUTPUT_CHARS as usize;
        assert_eq!(limit(None, None, None), Ok(Limit { keep: Keep::Both, max_chars }));
    }

    #[test]
    fn a_token_counts_as_four_characters() {
        assert_eq!(limit(Some("tail"), None, Some(25)), Ok(Limit { keep: Keep::Tail, max_chars: 100 }));
    }

    #[test]
    fn an_error_names_the_field_and_the_limit() {
        for (found, field) in [
            (limit(Some("middle"), None, None), "`output.keep` must be head, tail or both"),
            (limit(None, Some(0), None), "`output.maxChars` must be 1 to 1000000"),
            (limit(None, None, Some(250_001)), "`output.maxTokens` must be 1 to 250000"),
            (limit(None, Some(1), Some(1)), "`output.maxTokens` must not be combined with maxChars"),
        ] {
            assert_eq!(found.unwrap_err(), field);
        }
    }
}
