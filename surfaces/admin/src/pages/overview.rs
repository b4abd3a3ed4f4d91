//! The overview: the daemon's state, and numbers of what the token sees.

use axum::response::{IntoResponse, Response};
use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use sandbox_api::ErrorCode;
use sandbox_api::audit::{AuditLine, ListAudit};
use sandbox_api::sandbox::{ListSandboxes, SandboxList, SandboxState};
use sandbox_client::{Client, Error as ClientError};

use super::projects::address_of;
use super::{audit, denials, project, table};
use crate::failure::{Failure, sentence};
use crate::layout::{Page, Section};
use crate::limits::{MAX_COUNTED, MAX_COUNTED_LINES, SHOWN_ACTS};
use crate::query::Query;
use crate::units;
use crate::visitor::{Scope, Visitor};

/// How far back refusals are counted.
const RECENT: SignedDuration = SignedDuration::from_hours(24);

/// The page.
pub(crate) async fn show(visitor: Visitor, query: Query) -> Result<Response, Failure> {
    let who = &visitor.who;
    let content = html! {
        h1 { "Overview" }
        div.tiles {
            (daemon(&visitor.client).await)
            @if visitor.may(Scope::Read) { (or_problem(sandboxes(&visitor.client).await)?) }
            @if visitor.may(Scope::Operate) {
                (or_problem(refusals(&visitor.client, "Denied connections", "/admin/denials", denials::ACT).await)?)
                (or_problem(refusals(&visitor.client, "Wrong tokens", "/admin/audit?act=auth.fail", "auth.fail").await)?)
            }
        }
        @if visitor.may(Scope::Manage) {
            div.heading {
                h2 { "Project " (crate::text::cell(&who.project)) }
                a.button href=(address_of(&who.project)) { "Open project" }
            }
            (or_problem(quotas(&visitor.client, &who.project).await)?)
        }
        @if visitor.may(Scope::Operate) {
            h2 { "Latest acts" }
            (or_problem(latest(&visitor.client).await)?)
        }
        (token(&visitor))
    };
    let (title, section, done) = ("Overview", Section::Overview, query.done());
    Ok(Page { visitor: &visitor, title, section, done, content }.into_response())
}

/// Whether the daemon can create sandboxes.
async fn daemon(client: &Client) -> Markup {
    let (ready, health) = join(client.ready(), client.health()).await;
    let (name, problem) = match &ready {
        Ok(ready) if ready.disk_short => ("Disk nearly full", None),
        Ok(_) => ("Ready", None),
        Err(error) => ("Not ready", Some(sentence(&message_of(error)))),
    };
    html! {
        section.tile aria-label="Daemon" {
            h2 { "Daemon" }
            p.figure { (name) }
            @if let Some(problem) = problem { p.problem { (crate::text::cell(&problem)) } }
            p.muted {
                "sandboxd " (env!("CARGO_PKG_VERSION"))
                @if let Ok(health) = &health { " · " (crate::text::cell(&health.engine)) " " (crate::text::cell(&health.version)) }
            }
        }
    }
}

/// A part of the page that fails does not hide the others: while the daemon starts, this page says what is missing.
fn or_problem(part: Result<Markup, Failure>) -> Result<Markup, Failure> {
    match part {
        Err(Failure::Api(error)) if error.code() != Some(ErrorCode::Unauthenticated) => {
            Ok(html! { p.problem { (crate::text::cell(&sentence(&message_of(&error)))) } })
        }
        other => other,
    }
}

fn message_of(error: &ClientError) -> String {
    error.body().map_or_else(|| error.to_string(), |body| body.error.clone())
}

async fn sandboxes(client: &Client) -> Result<Markup, Failure> {
    let which = ListSandboxes { limit: Some(MAX_COUNTED), ..ListSandboxes::default() };
    let SandboxList { sandboxes, next_cursor } = client.list(&which).await?;
    let count = |state| sandboxes.iter().filter(|sandbox| sandbox.state == state).count() as u64;
    let (running, parked) = (count(SandboxState::Running), count(SandboxState::Parked));
    let others = (sandboxes.len() as u64).saturating_sub(running + parked);
    Ok(html! {
        section.tile aria-label="Sandboxes" {
            h2 { a href="/admin/sandboxes" { "Sandboxes" } }
            p.figure { (units::count(running)) span.unit { " running" } }
            p.muted {
                (units::count(parked)) " parked"
                @if others > 0 { " · " (units::count(others)) " in other states" }
                @if next_cursor.is_some() { " · of the first " (units::count(MAX_COUNTED.into())) }
            }
        }
    })
}

/// Counted refusals of the last day.
async fn refusals(client: &Client, title: &str, address: &str, act: &str) -> Result<Markup, Failure> {
    let which = ListAudit { act: Some(act.into()), limit: Some(MAX_COUNTED_LINES), ..ListAudit::default() };
    let list = client.audit(&which).await?;
    let since = Timestamp::now() - RECENT;
    let recent: Vec<&AuditLine> = list.lines.iter().filter(|line| line.at >= since).collect();
    let count =
        recent.iter().filter_map(|line| line.details.get("count")?.as_u64()).fold(0, u64::saturating_add);
    let is_all = list.next_cursor.is_none() || recent.len() < list.lines.len();
    Ok(html! {
        section.tile aria-label=(title) {
            h2 { a href=(address) { (title) } }
            p.figure { (units::count(count)) @if !is_all { "+" } }
            p.muted { "in the last 24 hours" }
        }
    })
}

async fn quotas(client: &Client, project: &str) -> Result<Markup, Failure> {
    let usage = client.project_usage(project).await?;
    let rows = html! { @for one in &usage.now { (project::quota_row(one)) } };
    Ok(table("Quotas", &["Quota", "Used now", "Limit", "Share"], &rows))
}

async fn latest(client: &Client) -> Result<Markup, Failure> {
    let which = ListAudit { limit: Some(SHOWN_ACTS), ..ListAudit::default() };
    Ok(audit::lines(&client.audit(&which).await?.lines))
}

fn token(visitor: &Visitor) -> Markup {
    let who = &visitor.who;
    html! {
        h2 { "This session" }
        dl.facts {
            dt { "Token" } dd { code { (crate::text::cell(&who.token)) } }
            dt { "Project" } dd { (crate::text::cell(&who.project)) }
            @if let Some(subject) = &who.subject { dt { "Subject" } dd { (crate::text::cell(subject)) } }
            dt { "Scopes" }
            dd { (who.scopes.join(", ")) @if who.operator { " · operator" } }
            @if let Some(at) = who.expires_at { dt { "Expires" } dd { (units::time(at)) } }
        }
    }
}
