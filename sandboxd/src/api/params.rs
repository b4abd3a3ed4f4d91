//! Ids in paths and numbers in queries.

use std::collections::HashMap;
use std::str::FromStr;

use axum::extract::Query;
use sandbox_api::{CommandId, SandboxId};

use super::error::{ApiError, DoorError, Result};
use crate::model::FieldError;
use crate::service;

/// A query, one value for each name.
pub(super) type Params = Query<HashMap<String, String>>;

/// The sandbox a path names. What is no id names nothing.
pub(super) fn sandbox(text: &str) -> Result<SandboxId> {
    text.parse().map_err(|_| service::Error::NotFound { resource: "sandbox" }.into())
}

/// The command a path names.
pub(super) fn command(text: &str) -> Result<CommandId> {
    text.parse().map_err(|_| service::Error::NotFound { resource: "command" }.into())
}

/// Splits `id:verb`.
pub(super) fn verb(target: &str) -> Result<(&str, &str)> {
    target.split_once(':').ok_or_else(|| ApiError::from(DoorError::Method))
}

/// A query's value of another type than text, if it is there.
pub(super) fn optional<T: FromStr>(params: &Params, name: &str, kind: &str) -> Result<Option<T>> {
    let Some(text) = params.get(name) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(FieldError::new(name, format!("must be {kind}")).into()),
    }
}
