//! The list of sandboxes.

use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sandbox_api::SandboxId;
use sandbox_api::sandbox::{ListSandboxes, Sandbox, SandboxState};

use super::{next_page, table};
use crate::failure::Failure;
use crate::layout::{Page, Section};
use crate::limits::PAGE_ROWS;
use crate::query::Query;
use crate::units;
use crate::visitor::Visitor;

const PATH: &str = "/admin/sandboxes";

/// States that the list can be limited to.
const STATES: [SandboxState; 4] =
    [SandboxState::Running, SandboxState::Parked, SandboxState::Failed, SandboxState::Lost];

/// The list.
pub(crate) async fn show(visitor: Visitor, query: Query) -> Result<Response, Failure> {
    let state = STATES.into_iter().find(|state| name_of(*state) == query.0.get("state"));
    let which = ListSandboxes {
        state,
        limit: Some(PAGE_ROWS),
        cursor: query.cursor().map(str::to_owned),
        ..ListSandboxes::default()
    };
    let list = visitor.client.list(&which).await?;
    let chosen = state.map(name_of).unwrap_or_default();
    let rows = html! { @for sandbox in &list.sandboxes { (row(sandbox)) } };
    let content = html! {
        h1 { "Sandboxes" }
        (of_whom(&visitor))
        (filter(chosen))
        @if list.sandboxes.is_empty() { p.muted { "There are none." } }
        @else { (table("Sandboxes", &["Session", "State", "Image", "Commands", "Last used", "Created"], &rows)) }
        (next_page(PATH, &[("state", chosen)], list.next_cursor.as_deref()))
    };
    let (title, section, done) = ("Sandboxes", Section::Sandboxes, query.done());
    Ok(Page { visitor: &visitor, title, section, done, content }.into_response())
}

/// Address of a sandbox's page.
pub(super) fn address_of(sandbox: &SandboxId) -> String {
    format!("{PATH}/{sandbox}")
}

/// Says whose sandboxes the token sees.
pub(super) fn of_whom(visitor: &Visitor) -> Markup {
    let who = &visitor.who;
    html! {
        p.lead {
            @if let Some(only) = &who.sandbox_id {
                "This token sees the sandbox " code { (only) } " only."
            } @else if let Some(subject) = &who.subject {
                "Those of " (crate::text::cell(subject)) " in the project " (crate::text::cell(&who.project)) "."
            } @else {
                "Those of the project " (crate::text::cell(&who.project)) "."
                @if who.operator { " To see those of another project, sign in with one of its tokens." }
            }
        }
    }
}

/// Shows a state.
pub(super) fn state(state: SandboxState) -> Markup {
    let name = name_of(state);
    html! { span.state.(name) { (name) } }
}

fn name_of(state: SandboxState) -> &'static str {
    match state {
        SandboxState::Creating => "creating",
        SandboxState::Running => "running",
        SandboxState::Parked => "parked",
        SandboxState::Failed => "failed",
        SandboxState::Lost => "lost",
        SandboxState::Deleted => "deleted",
    }
}

fn filter(chosen: &str) -> Markup {
    html! {
        form.filter method="get" action=(PATH) {
            label for="state" { "State" }
            select id="state" name="state" {
                option value="" { "All" }
                @for state in STATES.map(name_of) { option value=(state) selected[state == chosen] { (state) } }
            }
            button type="submit" { "Show" }
        }
    }
}

fn row(sandbox: &Sandbox) -> Markup {
    html! {
        tr {
            th scope="row" {
                a href=(address_of(&sandbox.sandbox_id)) { (crate::text::cell(&sandbox.session_key)) }
                br; code.muted { (sandbox.sandbox_id) }
            }
            td { (state(sandbox.state)) }
            td { (crate::text::cell(&sandbox.image)) }
            td.number { (sandbox.running_commands) }
            td { (units::time(sandbox.last_active_at)) }
            td { (units::time(sandbox.created_at)) }
        }
    }
}
