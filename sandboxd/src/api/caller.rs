//! Who sends a request, as handlers get it: with the scope that the route needs.
//!
//! A handler names its scope by the extractor that it takes. Without one it cannot reach the service.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::ApiState;
use super::error::{ApiError, HttpError, Result};
use crate::model::Principal;
use crate::model::principal::Scope;
use crate::service::{Access, ByOperator, Recorder};

/// Any principal, whatever it may do.
pub(super) struct Anyone(pub(super) Access);

/// A principal that may read.
pub(super) struct Reader(pub(super) Access);

/// A principal that may create, use and delete.
pub(super) struct User(pub(super) Access);

/// A principal that may create and revoke tokens.
pub(super) struct Manager(pub(super) Access);

/// The operator.
pub(super) struct Operator(pub(super) Access, pub(super) ByOperator);

impl FromRequestParts<ApiState> for Anyone {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self> {
        Ok(Self(access_of_any(parts, state)?))
    }
}

impl FromRequestParts<ApiState> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self> {
        Ok(Self(access(parts, state, Scope::Read)?))
    }
}

impl FromRequestParts<ApiState> for User {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self> {
        Ok(Self(access(parts, state, Scope::Use)?))
    }
}

impl FromRequestParts<ApiState> for Manager {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self> {
        Ok(Self(access(parts, state, Scope::Manage)?))
    }
}

impl FromRequestParts<ApiState> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self> {
        let access = access(parts, state, Scope::Manage)?;
        let proof = access.by_operator()?;
        Ok(Self(access, proof))
    }
}

fn access(parts: &Parts, state: &ApiState, scope: Scope) -> Result<Access> {
    let access = access_of_any(parts, state)?;
    if !access.principal().scopes.permit(scope) {
        return Err(HttpError::MissingScope { scope }.into());
    }
    Ok(access)
}

fn access_of_any(parts: &Parts, state: &ApiState) -> Result<Access> {
    // The authentication has set it.
    let principal = parts.extensions.get::<Arc<Principal>>().ok_or(HttpError::Unauthenticated)?;
    let recorder = parts.extensions.get::<Arc<Recorder>>().cloned();
    Ok(Access::new(&state.service, Arc::clone(principal), recorder))
}
