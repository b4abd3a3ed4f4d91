//! Finds out who sends a request, before the gates of the tools decide.
//!
//! An app without accounts admits whom its access policy admits. As soon as there is an account, a request needs a
//! session, and the token of `access = "lan"` no longer admits anyone. `access = "localhost"` still requires a client on
//! this machine.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bash_tools::gates;
use futures::FutureExt;
use http::request::Parts;
use listen::slot::ConnectionSlot;

use super::caller::Caller;
use super::error::{Error, Result};
use super::guard::{self, is_own_page, is_safe};
use super::until_ended::{Ended, until_ended};
use super::{ACCESS_ROUTE, Api, cookie};

/// Why a request has no [`Caller`]. Private routes return it.
#[derive(Clone)]
struct Refusal(Arc<Error>);

/// The end of the session of a request, or of what an app without accounts admits.
#[derive(Clone)]
pub(super) struct SessionEnd(pub(super) Ended);

/// Puts the [`Caller`] into the extensions of a request of the API. Without one, only open routes respond.
pub(super) async fn identify(State(api): State<Api>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !path.starts_with("/api/") || path == ACCESS_ROUTE || path == super::HEALTH_ROUTE {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    match caller(&api, &mut parts).await {
        Ok(caller) => drop(parts.extensions.insert(caller)),
        Err(error) => drop(parts.extensions.insert(Refusal(Arc::new(error)))),
    }
    next.run(Request::from_parts(parts, body)).await
}

/// Lets only a [`Caller`] pass. What the caller sends and receives ends with the session.
pub(super) async fn check_private(mut request: Request, next: Next) -> Response {
    if let Some(Refusal(error)) = request.extensions_mut().remove() {
        return Arc::try_unwrap(error).unwrap_or(Error::Unauthorized).into_response();
    }
    let Some(caller) = request.extensions().get::<Caller>() else {
        return Error::Unauthorized.into_response();
    };
    let is_own = match caller {
        Caller::User(_) if !is_safe(request.method()) => cookie::must_be_own(request.headers()),
        Caller::User(_) | Caller::Everyone => Ok(()),
    };
    if let Err(error) = is_own {
        return error.into_response();
    }
    if let Some(connection) = request.extensions().get::<Arc<ConnectionSlot>>() {
        connection.mark_authenticated();
    }
    let Some(SessionEnd(ended)) = request.extensions().get().cloned() else { return next.run(request).await };
    let at_end = ended.clone();
    let response = next.run(request.map(|body| until_ended(body, at_end))).await;
    // A short response is complete already.
    let is_complete = http_body::Body::size_hint(response.body()).exact().is_some();
    if is_complete { response } else { response.map(|body| until_ended(body, ended)) }
}

async fn caller(api: &Api, parts: &mut Parts) -> Result<Caller> {
    if !api.people.has_accounts().await? {
        if !api.gates.admits(parts) {
            return Err(Error::Unauthorized);
        }
        // With the first account, what is under way for a visitor ends too.
        parts.extensions.insert(SessionEnd(api.people.clone().until_accounts().boxed().shared()));
        return Ok(Caller::Everyone);
    }
    let secret = cookie::read(&parts.headers, api.is_secure())?.ok_or(Error::SignedOut)?;
    let (who, watch) = api.people.use_session(&secret).await?.ok_or(Error::SignedOut)?;
    // The browser adds the cookie to requests of pages on other ports of this host too.
    if !is_own_page(&parts.headers, guard::host(&parts.headers, &parts.uri).unwrap_or_default()) {
        return Err(Error::Foreign);
    }
    parts.extensions.insert(gates::SignedIn);
    if !api.gates.admits(parts) {
        parts.extensions.remove::<gates::SignedIn>();
        return Err(Error::Unauthorized);
    }
    parts.extensions.insert(SessionEnd(watch.ended().boxed().shared()));
    Ok(Caller::User(Arc::new(who)))
}
