//! The audit record, newest lines first.

use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sandbox_api::audit::{AuditLine, ListAudit};
use serde_json::Value;

use super::{next_page, table};
use crate::failure::Failure;
use crate::layout::{Page, Section};
use crate::limits::PAGE_ROWS;
use crate::query::Query;
use crate::units;
use crate::visitor::Visitor;

const PATH: &str = "/admin/audit";

/// The page.
pub(crate) async fn show(visitor: Visitor, query: Query) -> Result<Response, Failure> {
    let (project, act) = (query.0.filled("project"), query.0.filled("act"));
    let which = ListAudit {
        project: project.map(str::to_owned),
        act: act.map(str::to_owned),
        limit: Some(PAGE_ROWS),
        cursor: query.cursor().map(str::to_owned),
    };
    let list = visitor.client.audit(&which).await?;
    let (project, act) = (project.unwrap_or_default(), act.unwrap_or_default());
    let content = html! {
        h1 { "Audit record" }
        p.lead {
            "Every act that matters for security, the newest first. An act has a line before it is done and one with its outcome. \
             This page does not check the lines: " code { "sandboxd audit verify" } " on the daemon’s machine finds every change."
        }
        (filter(project, act))
        @if list.lines.is_empty() { p.muted { "There are none on this page." } }
        @else { (lines(&list.lines)) }
        (next_page(PATH, &[("project", project), ("act", act)], list.next_cursor.as_deref()))
    };
    let (title, section) = ("Audit record", Section::Audit);
    Ok(Page { visitor: &visitor, title, section, done: None, content }.into_response())
}

/// A table of lines.
pub(super) fn lines(lines: &[AuditLine]) -> Markup {
    let rows = html! { @for line in lines { (row(line)) } };
    table("Lines of the audit record", &["Line", "Time", "Act", "Outcome", "By", "Details"], &rows)
}

/// A value as text, without the quotes of a string.
pub(super) fn value_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn filter(project: &str, act: &str) -> Markup {
    html! {
        form.filter method="get" action=(PATH) {
            label for="project" { "Project" }
            input type="text" id="project" name="project" value=(project) autocomplete="off" spellcheck="false";
            label for="act" { "Act" }
            input type="text" id="act" name="act" value=(act) placeholder="token.create, or token" autocomplete="off" spellcheck="false";
            button type="submit" { "Show" }
        }
    }
}

fn row(line: &AuditLine) -> Markup {
    html! {
        tr {
            td.number { (line.seq) }
            td { (units::time(line.at)) }
            th scope="row" { (crate::text::cell(&line.act)) }
            td { (outcome(line)) }
            td.by { (by(line)) }
            td { (details(line)) }
        }
    }
}

fn outcome(line: &AuditLine) -> Markup {
    html! {
        @match &line.outcome {
            Some(outcome) if outcome == "ok" => "ok",
            Some(outcome) => span.warning { (crate::text::cell(outcome)) },
            None => span.muted { "–" },
        }
        @if let Some(of) = line.of { span.muted { " of " (of) } }
    }
}

fn by(line: &AuditLine) -> Markup {
    let parts = [&line.token, &line.project, &line.subject];
    html! {
        @for (index, part) in parts.into_iter().flatten().enumerate() {
            @if index > 0 { " · " }
            (crate::text::cell(part))
        }
        @if line.token.is_none() { span.muted { @if line.project.is_some() { " · " } "daemon" } }
    }
}

fn details(line: &AuditLine) -> Markup {
    html! {
        @if !line.details.is_empty() || line.request_id.is_some() {
            dl.details {
                @for (name, value) in &line.details {
                    div { dt { (crate::text::cell(name)) } dd { (crate::text::cell(&value_of(value))) } }
                }
                @if let Some(request) = &line.request_id {
                    div { dt { "requestId" } dd { (crate::text::cell(request)) } }
                }
            }
        }
    }
}
