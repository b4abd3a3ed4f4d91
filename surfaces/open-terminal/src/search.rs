//! Searches: `grep_search` and `glob_search`.

use std::collections::BTreeSet;

use axum::extract::State;
use sandbox_api::files::{GlobFiles, GrepFiles, Patterns};
use serde_json::{Value, json};

use crate::access::Chat;
use crate::discovery::ok;
use crate::failure::Failure;
use crate::listing::{kind_of, modified};
use crate::params::Params;
use crate::paths;
use crate::server::{Answer, Server};

/// Results of a request that sets no number, and the maximum.
const DEFAULT_RESULTS: usize = 50;
const MAX_RESULTS: usize = 500;

/// Number of results of the daemon from which the wanted ones are taken.
const SEARCHED: u32 = 10_000;

/// Maximum number of patterns.
const MAX_PATTERNS: usize = 100;

pub(crate) async fn grep(State(server): State<Server>, chat: Chat, params: Params) -> Answer {
    let path = paths::readable(params.text("path").unwrap_or("."), &server.cwds.of(&chat))?;
    let (query, max) = (params.required("query")?, max_results(&params)?);
    let by_line = params.flag("match_per_line", true)?;
    let request = GrepFiles {
        query: query.to_owned(),
        path: Some(path.clone()),
        regex: Some(params.flag("regex", true)?),
        case_insensitive: Some(params.flag("case_insensitive", false)?),
        include: patterns(&params, "include")?,
        max_results: Some(if by_line { max as u32 } else { SEARCHED }),
        include_ignored: Some(true),
        hide_secrets: Some(true),
    };
    let found = chat.client.grep_files(&chat.open().await?, &request).await;
    let found = found.map_err(|error| missing(error, "Search path not found"))?;
    let (matches, is_cut) = if by_line {
        let lines = found.matches.iter().map(
            |line| json!({ "file": paths::of_entry(&line.path), "line": line.line, "content": line.text }),
        );
        (lines.collect::<Vec<Value>>(), false)
    } else {
        let files: BTreeSet<&str> = found.matches.iter().map(|line| line.path.as_str()).collect();
        let is_cut = files.len() > max;
        let files = files.into_iter().take(max).map(|path| json!({ "file": paths::of_entry(path) }));
        (files.collect(), is_cut)
    };
    let truncated = found.truncated || is_cut;
    Ok(ok(&json!({ "query": query, "path": path, "matches": matches, "truncated": truncated })))
}

pub(crate) async fn glob(State(server): State<Server>, chat: Chat, params: Params) -> Answer {
    let path = paths::readable(params.text("path").unwrap_or("."), &server.cwds.of(&chat))?;
    let (pattern, max) = (params.required("pattern")?, max_results(&params)?);
    let kind = match params.text("type").unwrap_or("any") {
        "any" => None,
        kind @ ("file" | "directory") => Some(kind.to_owned()),
        _ => return Err(Failure::argument("type", "must be file, directory or any")),
    };
    let request = GlobFiles {
        pattern: at_any_depth(pattern),
        path: Some(path.clone()),
        exclude: patterns(&params, "exclude")?,
        max_results: Some(SEARCHED),
        include_ignored: Some(true),
        hide_secrets: Some(true),
    };
    let found = chat.client.glob_files(&chat.open().await?, &request).await;
    let found = found.map_err(|error| missing(error, "Search directory not found"))?;
    let wanted =
        found.entries.iter().filter(|entry| kind.as_deref().is_none_or(|kind| kind == kind_of(entry)));
    let mut matches: Vec<Value> = wanted
        .take(max + 1)
        .map(|entry| {
            let name = paths::of_entry(&entry.path);
            let relative = name.strip_prefix(&path).unwrap_or(&name).trim_start_matches('/');
            json!({ "path": relative, "type": kind_of(entry), "size": entry.size, "modified": modified(entry) })
        })
        .collect();
    let truncated = found.truncated || matches.len() > max;
    matches.truncate(max);
    Ok(ok(&json!({ "pattern": pattern, "path": path, "matches": matches, "truncated": truncated })))
}

fn max_results(params: &Params) -> Result<usize, Failure> {
    Ok(params.number("max_results", 1..=MAX_RESULTS)?.unwrap_or(DEFAULT_RESULTS))
}

fn patterns(params: &Params, name: &str) -> Result<Option<Patterns>, Failure> {
    let patterns: Vec<String> = params.all(name).map(at_any_depth).collect();
    if patterns.len() > MAX_PATTERNS {
        return Err(Failure::argument(name, format_args!("occurs more than {MAX_PATTERNS} times")));
    }
    Ok((!patterns.is_empty()).then_some(Patterns::Several(patterns)))
}

/// A pattern without a slash matches names in every directory.
fn at_any_depth(pattern: &str) -> String {
    if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") }
}

fn missing(error: sandbox_client::Error, detail: &str) -> Failure {
    if crate::failure::is_missing_file(&error) { Failure::not_found(detail) } else { error.into() }
}
