//! One project: its quotas, its usage over time, and its tokens.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use futures::future::try_join3;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use sandbox_api::project::{Project, TokenList};
use sandbox_api::quota::{DayUsage, ProjectUsage, QuotaUsage};

use super::projects::address_of;
use super::{project_of, subject_form, table, token_form};
use crate::done::Done;
use crate::failure::Failure;
use crate::layout::{Page, Section};
use crate::limits::PLOT_DAYS;
use crate::plot::{Plot, Unit, fill};
use crate::query::Query;
use crate::units;
use crate::visitor::{Scope, Visitor};

/// What the page shows besides its forms.
pub(super) struct Shown {
    project: Project,
    usage: ProjectUsage,
    tokens: TokenList,
}

/// What a form on the page has to say.
#[derive(Default)]
pub(super) struct Forms {
    pub(super) token: Option<token_form::Entry>,
    pub(super) subject: Option<subject_form::Entry>,
}

/// The page.
pub(crate) async fn show(
    visitor: Visitor,
    Path(name): Path<String>,
    query: Query,
) -> Result<Response, Failure> {
    let shown = load(&visitor, project_of(&name)?, query.cursor()).await?;
    page(&visitor, &shown, &Forms::default(), query.done())
}

/// Asks for everything that the page shows.
pub(super) async fn load(visitor: &Visitor, name: &str, cursor: Option<&str>) -> Result<Shown, Failure> {
    let client = &visitor.client;
    let requests = try_join3(client.project(name), client.project_usage(name), client.tokens(name, cursor));
    let (project, usage, tokens) = requests.await?;
    Ok(Shown { project, usage, tokens })
}

/// Renders the page.
pub(super) fn page(
    visitor: &Visitor,
    shown: &Shown,
    forms: &Forms,
    done: Option<Done>,
) -> Result<Response, Failure> {
    let Shown { project, usage, tokens } = shown;
    let content = html! {
        p.path { a href="/admin/projects" { "Projects" } }
        h1 { (project.name) }
        p.lead { "Created " (units::time(project.created_at)) "." }
        (quotas(visitor, project, usage))
        h2 { "Usage" }
        p.muted { "The last " (PLOT_DAYS) " days in UTC, for the whole project." }
        (plots(&usage.days, today()))
        (token_form::section(visitor, &project.name, tokens, forms.token.as_ref())?)
        (subject_form::section(visitor, &project.name, forms.subject.as_ref()))
    };
    Ok(Page { visitor, title: &project.name, section: Section::Projects, done, content }.into_response())
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

fn quotas(visitor: &Visitor, project: &Project, usage: &ProjectUsage) -> Markup {
    let rows = html! { @for one in &usage.now { (quota_row(one)) } };
    let (images, modes) = (&project.quotas.images, &project.quotas.network_modes);
    html! {
        div.heading {
            h2 { "Quotas" }
            @if visitor.may(Scope::Operate) {
                a.button href={ (address_of(&project.name)) "/quotas" } { "Edit quotas" }
            }
        }
        (table("Quotas", &["Quota", "Used now", "Limit", "Share"], &rows))
        @for (name, allowed) in [("Images", images), ("Network modes", modes)] {
            @if let Some(allowed) = allowed {
                p { (name) ": " @for (index, one) in allowed.iter().enumerate() { @if index > 0 { ", " } (crate::text::cell(one)) } "." }
            }
        }
    }
}

/// A quota, what is used of it, and how much that is.
pub(super) fn quota_row(one: &QuotaUsage) -> Markup {
    let QuotaUsage { quota, used, limit } = one;
    let name = units::quota_name(quota);
    html! {
        tr {
            th scope="row" { (name) }
            td.number { (units::quota(quota, *used)) }
            td.number {
                @match limit { Some(limit) => (units::quota(quota, *limit)), None => span.muted { "no limit" } }
            }
            td {
                @if let Some(limit) = limit {
                    meter min="0" max=((*limit).max(1)) value=(used.min(limit)) high=((limit.saturating_mul(9) / 10).max(1))
                        aria-label={ "Share of " (name) } {}
                }
            }
        }
    }
}

fn plots(days: &[DayUsage], today: Date) -> Markup {
    let plot = |id, title, unit, value: fn(&DayUsage) -> u64| {
        let known: Vec<(Date, u64)> = days.iter().map(|day| (day.day, value(day))).collect();
        Plot { id, title, unit, days: fill(&known, today, PLOT_DAYS) }.show()
    };
    html! {
        div.plots {
            (plot("running", "Running time of sandboxes", Unit::Milliseconds, |day| day.running_ms))
            (plot("peak", "Most sandboxes at once", Unit::Count, |day| day.peak_running))
            (plot("commands", "Commands", Unit::Count, |day| day.commands))
            (plot("egress", "Outbound traffic", Unit::Bytes, |day| day.egress_bytes))
            (plot("snapshots", "Stored snapshots", Unit::Bytes, |day| day.snapshot_bytes))
        }
    }
}
