//! Signing in and out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::Json;
use axum::body::Body;
use axum::extract::{ConnectInfo, FromRequestParts, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bash_tools::gates;
use http::HeaderMap;
use http::header::{HeaderValue, SET_COOKIE, USER_AGENT};
use http::request::Parts;
use listen::client_address;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use super::caller::Member;
use super::error::{Error, Result};
use super::{Api, MAX_FORWARDED, cookie};
use crate::account::UserName;
use crate::people::Verified;

/// Body of `POST /api/session`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    name: String,
    password: SecretString,
}

/// Body of `POST /api/invitations/accept`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accept {
    invitation: SecretString,
    name: String,
    password: SecretString,
}

/// The address whose attempts are counted: the client that a trusted proxy names, or the other end of the connection.
pub(super) struct Peer(pub(super) IpAddr);

/// A client on the app's own page that may sign in from where it is, in an app with accounts.
pub(super) struct Visitor {
    peer: IpAddr,
}

impl Visitor {
    /// The address whose attempts are counted.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }
}

impl FromRequestParts<Api> for Visitor {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        cookie::must_be_own(&parts.headers)?;
        if !api.people.has_accounts().await? {
            return Err(Error::NoAccounts);
        }
        let before = parts.extensions.insert(gates::SignedIn);
        let is_admitted = api.gates.admits(parts);
        if before.is_none() {
            parts.extensions.remove::<gates::SignedIn>();
        }
        let Peer(peer) = Peer::from_request_parts(parts, api).await?;
        if is_admitted { Ok(Self { peer }) } else { Err(Error::Unauthorized) }
    }
}

impl FromRequestParts<Api> for Peer {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip());
        let is_proxy = |address: IpAddr| api.is_trusted_proxy(address);
        Ok(Self(client_address(peer, &parts.headers, MAX_FORWARDED, is_proxy)))
    }
}

/// `POST /api/session`
pub(super) async fn sign_in(
    State(api): State<Api>,
    Visitor { peer }: Visitor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let (SignIn { name, password }, _) = api.bodies.read(&headers, body).await?;
    let who = api.people.authenticate(&name, password, peer).await?;
    begin(&api, &who, &headers).await
}

/// `POST /api/invitations/accept`: makes the account of a new user with an invitation, and signs them in.
pub(super) async fn accept(
    State(api): State<Api>,
    Visitor { peer }: Visitor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let (Accept { invitation, name, password }, _) = api.bodies.read(&headers, body).await?;
    let name: UserName =
        name.parse().map_err(|error| Error::Invalid { field: "name", problem: format!("{error}") })?;
    let who = api.people.accept(invitation.expose_secret(), &name, password, peer).await?;
    begin(&api, &who, &headers).await
}

/// `DELETE /api/session`
pub(super) async fn sign_out(State(api): State<Api>, Member(who): Member) -> Result<Response> {
    api.people.end_session(&who.user.id, &who.session).await?;
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie::remove(api.is_secure()))]).into_response())
}

/// Begins a session and returns its user. The secret is only in the cookie.
async fn begin(api: &Api, who: &Verified, headers: &HeaderMap) -> Result<Response> {
    let cookie = [(SET_COOKIE, begin_cookie(api, who, headers).await?)];
    Ok((cookie, Json(json!({ "user": who.user }))).into_response())
}

/// Begins a session and returns the value of `set-cookie`.
pub(super) async fn begin_cookie(api: &Api, who: &Verified, headers: &HeaderMap) -> Result<HeaderValue> {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    let secret = api.people.begin_session(who, agent).await?;
    Ok(cookie::set(&secret, api.is_secure()))
}
