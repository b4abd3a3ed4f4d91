//! Who sends a request. Handlers of private routes get chats and accounts only through these.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::Api;
use super::error::{Error, Result};
use crate::account::{Owner, Role, SignedIn};

/// The sender of a request that may use private routes. The [identification](super::identify) puts it into the
/// request's extensions. Without it, the extractor rejects the request.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    /// Anyone with access to an app without accounts.
    Everyone,
    /// A user with a session.
    User(Arc<SignedIn>),
}

/// A user with a session. Rejects everyone else.
#[derive(Debug, Clone)]
pub(super) struct Member(pub(super) Arc<SignedIn>);

/// An admin with a session. Rejects everyone else.
#[derive(Debug, Clone)]
pub(super) struct Admin(pub(super) Arc<SignedIn>);

impl Caller {
    /// Returns whose chats the caller has.
    pub(super) fn owner(&self) -> Owner {
        match self {
            Self::Everyone => Owner::Everyone,
            Self::User(who) => Owner::User(who.user.id.clone()),
        }
    }
}

impl Caller {
    /// Id of the caller's session. `None` in an app without accounts.
    pub(super) fn session(&self) -> Option<&str> {
        match self {
            Self::Everyone => None,
            Self::User(who) => Some(&who.session),
        }
    }
}

impl FromRequestParts<Api> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _api: &Api) -> Result<Self> {
        parts.extensions.get::<Self>().cloned().ok_or(Error::Unauthorized)
    }
}

impl FromRequestParts<Api> for Member {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        match Caller::from_request_parts(parts, api).await? {
            Caller::User(who) => Ok(Self(who)),
            Caller::Everyone => Err(Error::NoAccounts),
        }
    }
}

impl FromRequestParts<Api> for Admin {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let Member(who) = Member::from_request_parts(parts, api).await?;
        match who.user.role {
            Role::Admin => Ok(Self(who)),
            Role::User => Err(Error::NotAdmin),
        }
    }
}
