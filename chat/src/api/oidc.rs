//! Signing in with an identity provider. Only the browser's own way back ends in a session.

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderMap;
use http::header::SET_COOKIE;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use super::error::{Error, Result};
use super::session::{self, Visitor};
use super::{Api, cookie};
use crate::account::SecretHash;
use crate::oidc::{Identity, Oidc, Returned};
use crate::people::{Identified, Verified};

/// Body of `POST /api/oidc`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    /// Secret of an invitation, for a new user.
    invitation: Option<SecretString>,
}

/// What the provider adds to the address of the callback.
#[derive(Debug, Deserialize)]
pub(super) struct Callback {
    #[serde(default)]
    state: String,
    #[serde(default)]
    code: String,
    iss: Option<String>,
}

/// `POST /api/oidc`: returns the provider's address for this browser.
pub(super) async fn begin(
    State(api): State<Api>,
    visitor: Visitor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let (Begin { invitation }, _) = api.bodies.read(&headers, body).await?;
    let oidc = provider(&api)?;
    api.people.count_attempt(visitor.peer())?;
    let invitation = invitation.map(|secret| SecretHash::of(secret.expose_secret()));
    let begun = oidc.begin(invitation).await?;
    let cookie = [(SET_COOKIE, cookie::set_browser(&begun.browser, api.is_secure()))];
    Ok((cookie, Json(json!({ "url": begun.url }))).into_response())
}

/// `GET /api/oidc/callback`: begins a session and shows the page, which also shows why that failed.
pub(super) async fn callback(
    State(api): State<Api>,
    Query(returned): Query<Callback>,
    headers: HeaderMap,
) -> Response {
    let mut response = match finish(&api, &returned, &headers).await {
        Ok(who) => match session::begin_cookie(&api, &who, &headers).await {
            Ok(cookie) => ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
            Err(error) => failed(&error),
        },
        Err(error) => failed(&error),
    };
    response.headers_mut().append(SET_COOKIE, cookie::remove_browser(api.is_secure()));
    response
}

async fn finish(api: &Api, returned: &Callback, headers: &HeaderMap) -> Result<Verified> {
    let oidc = provider(api)?;
    if !api.people.has_accounts().await? {
        return Err(Error::NoAccounts);
    }
    let browser = cookie::read_browser(headers, api.is_secure())?.unwrap_or_default();
    let Callback { state, code, iss } = returned;
    let identity = oidc.finish(Returned { state, code, issuer: iss.as_deref(), browser: &browser }).await?;
    let local_part = identity.verified_email.as_deref().and_then(|email| email.split('@').next());
    let name = identity.name.as_deref().or(local_part).unwrap_or_default();
    let who = Identified {
        identity: (&identity.issuer, &identity.subject),
        name,
        invitation: identity.invitation,
        is_welcome: is_welcome(&identity, &api.settings.oidc_domains),
    };
    Ok(api.people.identify(who).await?)
}

fn provider(api: &Api) -> Result<&Oidc> {
    api.oidc.as_deref().ok_or(Error::NotFound { what: "identity provider" })
}

/// Whether a new user may join without an invitation: with a verified address of one of the domains.
fn is_welcome(identity: &Identity, domains: &[String]) -> bool {
    let email = identity.verified_email.as_deref().and_then(|email| email.rsplit_once('@'));
    email.is_some_and(|(_, domain)| domains.iter().any(|known| known.eq_ignore_ascii_case(domain)))
}

/// Shows the page with the error in the fragment, which is in no log.
fn failed(error: &Error) -> Response {
    tracing::info!(%error, cause = ?std::error::Error::source(error), "a sign-in with the identity provider failed");
    let fragment = serde_urlencoded::to_string([("sign-in-error", error.to_string())]).unwrap_or_default();
    Redirect::to(&format!("/#{fragment}")).into_response()
}
