//! Handler for the history of a sandbox's commands.

use sandbox_api::history::{HistoryEntry, HistoryList, HistoryRun, HistoryToolCall};

use super::body::Json;
use super::caller::Reader;
use super::command::record_to_wire;
use super::error::Result;
use super::openapi::InSandbox;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use crate::model::context::ContextEntry;
use crate::model::field::checked;
use crate::model::limits;
use crate::model::{CommandRecord, FieldError};

/// List commands that have ended.
///
/// Returns them in reverse order of their ends, with runs of code and calls of tools. Unlike the list of commands, the history is kept whatever its age: the newest
/// 5,000 commands at least, until the sandbox is deleted. An entry never changes. Does not wake the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/history", operation_id = "listHistory", tag = "commands",
    params(InSandbox,
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = HistoryList), ByName, ByQuery))]
pub(super) async fn list(
    Reader(access): Reader,
    Path(id): Path<String>,
    query: Params,
) -> Result<Json<HistoryList>> {
    let limit = params::optional(&query, "limit", "a number")?.unwrap_or(limits::DEFAULT_HISTORY_PAGE);
    let limit = checked("limit", u64::from(limit), 1..=u64::from(limits::MAX_HISTORY_PAGE))? as u32;
    let before = query.get("cursor").map(|cursor| cursor_of(cursor)).transpose()?;
    let id = access.sandbox(params::sandbox(&id)?)?;
    // One more, to know whether there is a next page.
    let mut found = access.commands().history(&id, before, limit + 1).await?;
    let has_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| has_more).map(|(seq, ..)| seq.to_string());
    let entry = |(seq, record, in_context)| to_wire(seq, record, in_context);
    Ok(Json(HistoryList { commands: found.into_iter().map(entry).collect(), next_cursor }))
}

fn to_wire(seq: u64, record: CommandRecord, in_context: Option<ContextEntry>) -> HistoryEntry {
    let entry = HistoryEntry { seq, command: record_to_wire(record), run: None, tool_call: None };
    match in_context {
        None => entry,
        Some(ContextEntry::Run { context: context_id, status }) => {
            HistoryEntry { run: Some(HistoryRun { context_id, status }), ..entry }
        }
        Some(ContextEntry::ToolCall { context: context_id, call, status }) => {
            HistoryEntry { tool_call: Some(HistoryToolCall { context_id, call, status }), ..entry }
        }
    }
}

fn cursor_of(text: &str) -> std::result::Result<u64, FieldError> {
    let seq = text.parse::<u64>().ok().filter(|seq| seq.to_string() == text);
    seq.ok_or_else(super::snapshot::bad_cursor)
}
