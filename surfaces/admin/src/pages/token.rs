//! The tokens of a project: list, create, revoke.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sandbox_api::project::{CreateToken, Token, TokenCreated, TokenList};
use sandbox_api::{ErrorCode, TokenId};
use sandbox_client::Error as ClientError;

use super::projects::address_of;
use super::{next_page, project, project_of, table};
use crate::done::Done;
use crate::failure::{Failure, Problem};
use crate::fields::{self, Line};
use crate::form::Form;
use crate::layout::{Page, Section, csrf};
use crate::limits::MAX_TOKEN_PAGES;
use crate::server::Server;
use crate::session::Secret;
use crate::units;
use crate::visitor::{FORM, Sent, Visitor};

/// Scopes, and what they permit.
const SCOPES: [(&str, &str); 3] = [
    ("read", "See sandboxes, files and output. A read may wake a sandbox."),
    ("use", "Create, run, write and delete. Includes reading."),
    ("manage", "Create and revoke tokens of the project, and see its usage."),
];

/// Times after which a token expires, in days. The first is never.
const EXPIRIES: [(&str, u64); 5] =
    [("Never", 0), ("1 day", 1), ("7 days", 7), ("30 days", 30), ("1 year", 365)];

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What the user has entered, and what is wrong with it.
pub(super) struct Entry {
    request: CreateToken,
    days: u64,
    problem: Problem,
}

/// Creates a token and shows it, once.
pub(crate) async fn create(
    State(server): State<Server>,
    Path(name): Path<String>,
    sent: Sent,
) -> Result<Response, Failure> {
    let Sent { visitor, form, .. } = sent;
    let name = project_of(&name)?;
    let (request, days) = request_of(&form);
    if request.scopes.as_ref().is_some_and(Vec::is_empty) {
        let problem = Problem::of_field("scopes", "Choose at least one.");
        return refused(&visitor, name, Entry { request, days, problem }).await;
    }
    // A reload sends the form again.
    if !server.sessions.send_once(&visitor.session, form.get(FORM)) {
        return Ok(Done::AlreadySent.then(&address_of(name)));
    }
    match visitor.client.create_token(name, &request).await {
        Ok(created) => Ok(created_page(&visitor, &created)),
        Err(error) => {
            if is_refusal(&error) {
                server.sessions.forget_sent(&visitor.session, form.get(FORM));
            }
            let problem = Problem::of(error)?;
            refused(&visitor, name, Entry { request, days, problem }).await
        }
    }
}

/// Asks whether to revoke a token.
pub(crate) async fn confirm(
    visitor: Visitor,
    Path((name, token)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let (name, token) = (project_of(&name)?, token_of(&token)?);
    let found = find(&visitor, name, &token).await?;
    let content = html! {
        p.path { a href="/admin/projects" { "Projects" } " / " a href=(address_of(name)) { (name) } }
        h1 { "Revoke this token?" }
        dl.facts {
            dt { "Token" } dd { code { (token) } }
            dt { "Name" } dd { (name_of(&found)) }
            dt { "Last used" } dd { (last_used(&found)) }
        }
        p { "Its requests fail at once, and its open connections and preview links end. Commands that it has started continue." }
        div.actions {
            (fields::button(&visitor, &revoke_address(name, &token), "Revoke token", "danger"))
            a.button href=(address_of(name)) { "Cancel" }
        }
    };
    let title = "Revoke a token";
    Ok(Page { visitor: &visitor, title, section: Section::Projects, done: None, content }.into_response())
}

/// Revokes a token.
pub(crate) async fn revoke(
    Path((name, token)): Path<(String, String)>,
    sent: Sent,
) -> Result<Response, Failure> {
    let (name, token) = (project_of(&name)?, token_of(&token)?);
    sent.visitor.client.revoke_token(name, &token).await?;
    Ok(Done::TokenRevoked.then(&address_of(name)))
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

/// Whether the API has answered that it created nothing. Without an answer, it may have.
fn is_refusal(error: &ClientError) -> bool {
    error.code().is_some_and(|code| code != ErrorCode::Internal)
}

async fn refused(visitor: &Visitor, name: &str, entry: Entry) -> Result<Response, Failure> {
    let status = entry.problem.status;
    let shown = project::load(visitor, name, None).await?;
    let forms = project::Forms { token: Some(entry), ..Default::default() };
    Ok((status, project::page(visitor, &shown, &forms, None)?).into_response())
}

fn request_of(form: &Form) -> (CreateToken, u64) {
    let days = form.get("days").parse().unwrap_or_default();
    let ttl = DAY.as_millis().saturating_mul(u128::from(days));
    let request = CreateToken {
        name: form.filled("name").map(str::to_owned),
        subject: form.filled("subject").map(str::to_owned),
        scopes: Some(form.all("scope").map(str::to_owned).collect()),
        ttl_ms: (days > 0).then(|| u64::try_from(ttl).unwrap_or(u64::MAX)),
    };
    (request, days)
}

fn created_page(visitor: &Visitor, created: &TokenCreated) -> Response {
    let token = &created.properties;
    let content = html! {
        p.path { a href="/admin/projects" { "Projects" } " / " a href=(address_of(&token.project)) { (token.project) } }
        h1 { "The token is created" }
        p { "Copy it now. It is stored nowhere, and this page shows it only once." }
        p.secret { code #secret { (created.token) } }
        dl.facts {
            dt { "Id" } dd { code { (token.token_id) } }
            dt { "Name" } dd { (name_of(token)) }
            dt { "Scopes" } dd { (token.scopes.join(", ")) }
            dt { "Expires" } dd { (expires(token)) }
        }
        p { a.button href=(address_of(&token.project)) { "Back to the project" } }
    };
    let page = Page { visitor, title: "New token", section: Section::Projects, done: None, content };
    page.into_response()
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

/// Finds a token in the pages of the list. The API has no route for a single one.
async fn find(visitor: &Visitor, project: &str, token: &TokenId) -> Result<Token, Failure> {
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_TOKEN_PAGES {
        let page = visitor.client.tokens(project, cursor.as_deref()).await?;
        if let Some(found) = page.tokens.into_iter().find(|found| found.token_id == *token) {
            return Ok(found);
        }
        cursor = match page.next_cursor {
            Some(cursor) => Some(cursor),
            None => break,
        };
    }
    Err(Failure::Unknown("token"))
}

fn token_of(id: &str) -> Result<TokenId, Failure> {
    id.parse().map_err(|_| Failure::Unknown("token"))
}

fn revoke_address(project: &str, token: &TokenId) -> String {
    format!("{}/tokens/{token}/revoke", address_of(project))
}

fn name_of(token: &Token) -> Markup {
    html! { @match &token.name { Some(name) => (crate::text::cell(name)), None => span.muted { "unnamed" } } }
}

fn expires(token: &Token) -> Markup {
    html! { @match token.expires_at { Some(at) => (units::time(at)), None => span.muted { "never" } } }
}

fn last_used(token: &Token) -> Markup {
    html! { @match token.last_used_at { Some(at) => (units::time(at)), None => span.muted { "never" } } }
}
