//! The tokens of a project as a list, and the form for a new one.

use maud::{Markup, html};
use sandbox_api::TokenId;
use sandbox_api::project::{CreateToken, Token, TokenList};

use super::projects::address_of;
use super::{next_page, table};
use crate::failure::{Failure, Problem};
use crate::fields::{self, Line};
use crate::layout::csrf;
use crate::session::Secret;
use crate::units;
use crate::visitor::Visitor;

/// Scopes, and what they permit.
const SCOPES: [(&str, &str); 3] = [
    ("read", "See sandboxes, files and output. A read may wake a sandbox."),
    ("use", "Create, run, write and delete. Includes reading."),
    ("manage", "Create and revoke tokens of the project, and see its usage."),
];

/// Times after which a token expires, in days. The first is never.
const EXPIRIES: [(&str, u64); 5] =
    [("Never", 0), ("1 day", 1), ("7 days", 7), ("30 days", 30), ("1 year", 365)];

/// What the user has entered, and what is wrong with it.
pub(super) struct Entry {
    pub(super) request: CreateToken,
    pub(super) days: u64,
    pub(super) problem: Problem,
}

/// The tokens of a project, and the form for a new one.
pub(super) fn section(
    visitor: &Visitor,
    project: &str,
    tokens: &TokenList,
    entry: Option<&Entry>,
) -> Result<Markup, Failure> {
    let rows = html! { @for token in &tokens.tokens { (row(project, token)) } };
    let head = ["Name", "Subject", "Scopes", "Created", "Expires", "Last used", "Actions"];
    Ok(html! {
        h2 #tokens { "Tokens" }
        @if tokens.tokens.is_empty() { p.muted { "The project has no tokens." } }
        @else { (table("Tokens", &head, &rows)) }
        (next_page(&address_of(project), &[], tokens.next_cursor.as_deref()))
        (create_form(visitor, project, entry)?)
    })
}

fn row(project: &str, token: &Token) -> Markup {
    html! {
        tr {
            th scope="row" { (name_of(token)) br; code.muted { (token.token_id) } }
            td { @match &token.subject { Some(subject) => (crate::text::cell(subject)), None => span.muted { "whole project" } } }
            td { (token.scopes.join(", ")) }
            td { (units::time(token.created_at)) }
            td { (expires(token)) }
            td { (last_used(token)) }
            td { a.danger href=(revoke_address(project, &token.token_id)) aria-label={ "Revoke " (token.token_id) } { "Revoke" } }
        }
    }
}

fn create_form(visitor: &Visitor, project: &str, entry: Option<&Entry>) -> Result<Markup, Failure> {
    let once = Secret::random()?;
    let request = entry
        .map(|entry| entry.request.clone())
        .unwrap_or_else(|| CreateToken { scopes: Some(vec!["use".into()]), ..CreateToken::default() });
    let problem = entry.map(|entry| &entry.problem);
    let name = Line {
        name: "name",
        field: "name",
        label: "Name",
        hint: "Optional. Tells tokens apart in this list.",
        value: request.name.as_deref().unwrap_or_default(),
        required: false,
    };
    let subject = Line {
        name: "subject",
        field: "subject",
        label: "Subject",
        hint: "Optional. Limits the token to what belongs to this person or program.",
        value: request.subject.as_deref().unwrap_or_default(),
        required: false,
    };
    let days = entry.map_or(0, |entry| entry.days);
    Ok(html! {
        h3 #new-token { "New token" }
        form.card method="post" action={ (address_of(project)) "/tokens" } aria-labelledby="new-token" {
            (csrf(visitor))
            (fields::once(once.expose()))
            (fields::of_form(problem, &["name", "subject", "scopes"]))
            (name.show(problem))
            (subject.show(problem))
            (scopes(&request, problem))
            div.field {
                label for="days" { "Expires after" }
                select id="days" name="days" {
                    @for (label, value) in EXPIRIES { option value=(value) selected[value == days] { (label) } }
                }
            }
            button.primary type="submit" { "Create token" }
        }
    })
}

fn scopes(request: &CreateToken, problem: Option<&Problem>) -> Markup {
    let problem = problem.filter(|problem| problem.field.as_deref() == Some("scopes"));
    let is_chosen = |name: &str| request.scopes.iter().flatten().any(|chosen| chosen == name);
    html! {
        fieldset.field {
            legend { "Scopes" }
            @for (name, meaning) in SCOPES {
                label.choice {
                    input type="checkbox" name="scope" value=(name) checked[is_chosen(name)];
                    span { strong { (name) } " " span.muted { (meaning) } }
                }
            }
            @if let Some(problem) = problem { p.problem role="alert" { (crate::text::long(&problem.message)) } }
        }
    }
}

pub(super) fn revoke_address(project: &str, token: &TokenId) -> String {
    format!("{}/tokens/{token}/revoke", address_of(project))
}

pub(super) fn name_of(token: &Token) -> Markup {
    html! { @match &token.name { Some(name) => (crate::text::cell(name)), None => span.muted { "unnamed" } } }
}

pub(super) fn expires(token: &Token) -> Markup {
    html! { @match token.expires_at { Some(at) => (units::time(at)), None => span.muted { "never" } } }
}

pub(super) fn last_used(token: &Token) -> Markup {
    html! { @match token.last_used_at { Some(at) => (units::time(at)), None => span.muted { "never" } } }
}
