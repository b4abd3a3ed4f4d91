//! Signing in with a token, and signing out.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{LOCATION, RETRY_AFTER, SET_COOKIE};
use http::request::Parts;
use http::{Request, StatusCode};
use maud::html;
use surface_caller::WrongToken;

use crate::document;
use crate::failure::Failure;
use crate::form::Form;
use crate::limits::MAX_TOKEN_BYTES;
use crate::origin;
use crate::server::Server;
use crate::session::cookie;
use crate::visitor::{Sent, Visitor};

/// The form. A browser with a session does not need it.
pub(crate) async fn show(visitor: Result<Visitor, Failure>) -> Result<Response, Failure> {
    match visitor {
        Ok(_) => Ok(to_overview()),
        Err(Failure::SignedOut { .. }) => Ok(form(None)),
        Err(other) => Err(other),
    }
}

/// Begins a session. A wrong token counts like that of a request.
pub(crate) async fn sign_in(
    State(server): State<Server>,
    request: Request<Body>,
) -> Result<Response, Failure> {
    let (head, body) = request.into_parts();
    origin::check_change(&head.headers)?;
    let form_sent = Form::read(&head.headers, body).await?;
    let token = form_sent.get("token").trim();
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
        return Ok(refusal("This is not a token.", None));
    }
    let caller = match server.callers.authenticate(&head, token) {
        Ok(caller) => caller,
        Err(WrongToken { retry_after: None }) => return Ok(refusal("This token is not valid.", None)),
        Err(WrongToken { retry_after: Some(wait) }) => {
            let seconds = wait.as_secs() + 1;
            let message = format!("This token is not valid. Too many were not; try again in {seconds} s.");
            return Ok(refusal(&message, Some(seconds)));
        }
    };
    if caller.is_for_tools {
        return Ok(refusal(
            "A tool token is for tools only. Use a token of a project, or the operator's.",
            None,
        ));
    }
    end_previous(&server, &head)?;
    let secret = server.sessions.begin(token.into())?;
    let mut response = to_overview();
    let cookie = cookie::set(&secret, server.callers.is_secure(&head));
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// Ends the session.
pub(crate) async fn sign_out(State(server): State<Server>, sent: Sent) -> Failure {
    server.sessions.end(&sent.visitor.session);
    Failure::SignedOut { is_secure: sent.is_secure }
}

/// Another session of the same browser is not reachable any more.
fn end_previous(server: &Server, head: &Parts) -> Result<(), Failure> {
    let cookie = cookie::read(&head.headers, server.callers.is_secure(head));
    let previous = cookie.map_err(|_| Failure::SeveralCookies)?;
    if let Some(session) = previous.and_then(|cookie| server.sessions.find(&cookie)) {
        server.sessions.end(&session);
    }
    Ok(())
}

fn to_overview() -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, "/admin")]).into_response()
}

fn refusal(problem: &str, retry_after: Option<u64>) -> Response {
    let mut response = form(Some(problem));
    *response.status_mut() = match retry_after {
        Some(_) => StatusCode::TOO_MANY_REQUESTS,
        None => StatusCode::FORBIDDEN,
    };
    response.headers_mut().extend(retry_after.map(|seconds| (RETRY_AFTER, seconds.into())));
    response
}

fn form(problem: Option<&str>) -> Response {
    let content = html! {
        h1 { "Sign in" }
        form.card method="post" action="/admin/sign-in" {
            div.field {
                label for="token" { "Token" }
                input type="password" id="token" name="token" required autocomplete="off" spellcheck="false" autofocus
                    aria-describedby={ "token-hint" @if problem.is_some() { " token-problem" } }
                    aria-invalid=[problem.map(|_| "true")];
                p.hint #token-hint { "The operator’s token, or a token of a project." }
                @if let Some(problem) = problem { p.problem #token-problem role="alert" { (problem) } }
            }
            button.primary type="submit" { "Sign in" }
        }
        p.muted { "The browser gets a session of 12 hours at most. It never gets the token back." }
    };
    document::bare("Sign in", &content).into_response()
}
