//! Creates and revokes tokens of a project.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use maud::html;
use sandbox_api::project::{CreateToken, Token, TokenCreated};
use sandbox_api::{ErrorCode, TokenId};
use sandbox_client::Error as ClientError;

use super::projects::address_of;
use super::token_form::{Entry, expires, last_used, name_of, revoke_address};
use super::{project, project_of};
use crate::done::Done;
use crate::failure::{Failure, Problem};
use crate::fields;
use crate::form::Form;
use crate::layout::{Page, Section};
use crate::limits::MAX_TOKEN_PAGES;
use crate::server::Server;
use crate::visitor::{FORM, Sent, Visitor};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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
