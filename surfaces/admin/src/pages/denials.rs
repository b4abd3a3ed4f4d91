//! Connections that sandboxes were denied.
//!
//! The operator sees those of all projects, from the audit record. Other tokens see those of the sandboxes that they reach,
//! since the daemon started.

use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use maud::{Markup, html};
use sandbox_api::audit::{AuditLine, ListAudit};
use sandbox_api::network::{Denial, DenialReason};
use sandbox_api::sandbox::{ListSandboxes, Sandbox};

use super::sandboxes::{address_of, of_whom};
use super::{audit, next_page, table};
use crate::failure::Failure;
use crate::layout::{Page, Section};
use crate::limits::{MAX_DENIAL_REQUESTS, PAGE_ROWS};
use crate::query::Query;
use crate::units;
use crate::visitor::{Scope, Visitor};

const PATH: &str = "/admin/denials";

/// The act of the audit record.
pub(super) const ACT: &str = "network.deny";

/// The list.
pub(crate) async fn show(visitor: Visitor, query: Query) -> Result<Response, Failure> {
    let list = if visitor.may(Scope::Operate) {
        recorded(&visitor, &query).await?
    } else {
        live(&visitor, &query).await?
    };
    let content = html! { h1 { "Denials" } (list) };
    let (title, section) = ("Denials", Section::Denials);
    Ok(Page { visitor: &visitor, title, section, done: None, content }.into_response())
}

/// Denials of all projects, from the audit record.
async fn recorded(visitor: &Visitor, query: &Query) -> Result<Markup, Failure> {
    let which = ListAudit {
        act: Some(ACT.into()),
        limit: Some(PAGE_ROWS),
        cursor: query.cursor().map(str::to_owned),
        ..ListAudit::default()
    };
    let list = visitor.client.audit(&which).await?;
    let rows = html! { @for line in &list.lines { (recorded_row(line)) } };
    Ok(html! {
        p.lead { "Connections of sandboxes that their network policy did not allow, in all projects, counted for each minute." }
        @if list.lines.is_empty() { p.muted { "There are none." } }
        @else { (table("Denials", &["Minute before", "Sandbox", "Host", "Reason", "Times"], &rows)) }
        (next_page(PATH, &[], list.next_cursor.as_deref()))
    })
}

fn recorded_row(line: &AuditLine) -> Markup {
    let text = |name: &str| line.details.get(name).map(audit::value_of).unwrap_or_default();
    let (sandbox, port) = (text("sandboxId"), text("port"));
    html! {
        tr {
            td { (units::time(line.at)) }
            th scope="row" {
                code { (crate::text::cell(&sandbox)) }
                @if let Some(project) = &line.project { br; span.muted { (crate::text::cell(project)) } }
            }
            td { (host(&text("host"), &port)) }
            td { (reason_of(&text("reason"))) }
            td.number { (line.details.get("count").and_then(serde_json::Value::as_u64).map(units::count).unwrap_or_default()) }
        }
    }
}

/// Denials of the sandboxes on one page of the list.
async fn live(visitor: &Visitor, query: &Query) -> Result<Markup, Failure> {
    let which = ListSandboxes {
        limit: u32::try_from(MAX_DENIAL_REQUESTS).ok(),
        cursor: query.cursor().map(str::to_owned),
        ..ListSandboxes::default()
    };
    let list = visitor.client.list(&which).await?;
    let requests = list.sandboxes.iter().map(|sandbox| visitor.client.denials(&sandbox.sandbox_id));
    // A sandbox may have been deleted since it was listed.
    let answers =
        join_all(requests).await.into_iter().map(|found| found.map(|list| list.denials).unwrap_or_default());
    let found: Vec<(&Sandbox, Vec<Denial>)> =
        list.sandboxes.iter().zip(answers).filter(|(_, denials)| !denials.is_empty()).collect();
    Ok(html! {
        (of_whom(visitor))
        p.muted { "Since the daemon started. A page has those of " (MAX_DENIAL_REQUESTS) " sandboxes." }
        @if found.is_empty() { p.muted { "There are none." } }
        @for (sandbox, denials) in &found {
            h2 { a href=(address_of(&sandbox.sandbox_id)) { (crate::text::cell(&sandbox.session_key)) } }
            (of_sandbox(denials))
        }
        (next_page(PATH, &[], list.next_cursor.as_deref()))
    })
}

/// A table of the denials of a sandbox.
pub(super) fn of_sandbox(denials: &[Denial]) -> Markup {
    let rows = html! {
        @for denial in denials {
            tr {
                th scope="row" { (host(&denial.host, &denial.port.to_string())) }
                td { (reason(denial.reason)) }
                td.number { (units::count(denial.count)) }
                td { (units::time(denial.last_at)) }
            }
        }
    };
    table("Denials", &["Host", "Reason", "Times", "Last"], &rows)
}

fn host(host: &str, port: &str) -> Markup {
    html! { code { (crate::text::cell(host)) @if !port.is_empty() { ":" (crate::text::cell(port)) } } }
}

/// A reason as the audit record has it.
fn reason_of(text: &str) -> Markup {
    match serde_json::from_value(text.into()) {
        Ok(known) => html! { (reason(known)) },
        Err(_) => crate::text::cell(text),
    }
}

fn reason(reason: DenialReason) -> &'static str {
    match reason {
        DenialReason::Off => "no network",
        DenialReason::HostNotAllowed => "host not allowed",
        DenialReason::PortNotAllowed => "port not allowed",
        DenialReason::AddressNotAllowed => "address not allowed",
        DenialReason::NotPublic => "address not public",
        DenialReason::NameMismatch => "another name than requested",
        DenialReason::Invalid => "host not valid",
        DenialReason::Limit => "a limit was reached",
    }
}
