//! JSON in and out.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use sandbox_api::command::{KillCommand, StartCommand};
use sandbox_api::files::WriteFiles;
use sandbox_api::sandbox::{CreateSandbox, ParkSandbox, TouchSandbox};
use serde::Serialize;
use serde::de::DeserializeOwned;

use tokio::time::timeout;

use super::decode::decode;
use super::error::{ApiError, DoorError, Result};
use super::{ApiState, JSON};
use crate::model::limits;

/// What a route takes as its body.
pub(super) trait Wish: DeserializeOwned {
    /// Longest body in bytes, where the operator's own limit is not shorter.
    const MAX_BYTES: usize;
}

impl Wish for CreateSandbox {
    const MAX_BYTES: usize = limits::MAX_CONTROL_BODY_BYTES;
}

impl Wish for ParkSandbox {
    const MAX_BYTES: usize = limits::MAX_CONTROL_BODY_BYTES;
}

impl Wish for TouchSandbox {
    const MAX_BYTES: usize = limits::MAX_CONTROL_BODY_BYTES;
}

impl Wish for KillCommand {
    const MAX_BYTES: usize = limits::MAX_CONTROL_BODY_BYTES;
}

/// A script of its greatest length, escaped as far as JSON goes, with standard input beside it.
impl Wish for StartCommand {
    const MAX_BYTES: usize = limits::MAX_COMMAND_BODY_BYTES;
}

impl Wish for WriteFiles {
    const MAX_BYTES: usize = usize::MAX;
}

/// A JSON body, decoded. An empty one counts as `{}`, which only suits types without required fields.
pub(super) struct Json<T>(pub(super) T);

impl<T: Wish> FromRequest<ApiState> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self> {
        let is_json = is_json(request.headers());
        let limit = state.service.limits().max_body_bytes.min(T::MAX_BYTES);
        let said = said_length(&request, limit)?;
        let room = u32::try_from(said.div_ceil(1024)).unwrap_or(u32::MAX);
        // Held until the body is decoded. A client that says nothing takes room for the largest body.
        let _room = timeout(limits::REQUEST_BODY, state.bodies.acquire_many(room))
            .await
            .map_err(|_| DoorError::BodyLate)?;
        let bytes = read(request, limit).await?;
        if bytes.is_empty() {
            return Ok(Self(decode(b"{}")?));
        }
        if !is_json {
            return Err(DoorError::NotJson.into());
        }
        Ok(Self(decode(&bytes)?))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self.0).expect("our types have string keys and finite numbers");
        ([(CONTENT_TYPE, JSON)], Body::from(json)).into_response()
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// How long the body says it is, or may be; one that says it is longer than `limit` is not read at all.
fn said_length(request: &Request, limit: usize) -> Result<usize> {
    let header = request.headers().get(CONTENT_LENGTH);
    let said: Option<usize> = header.and_then(|value| value.to_str().ok()?.parse().ok());
    let said = said.unwrap_or(if request.body().is_end_stream() { 0 } else { limit });
    if said > limit { Err(DoorError::BodyTooLarge { limit }.into()) } else { Ok(said) }
}

/// Reads a body of at most `limit` bytes.
async fn read(request: Request, limit: usize) -> Result<Bytes> {
    let body = Limited::new(request.into_body(), limit).collect();
    match timeout(limits::REQUEST_BODY, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(DoorError::BodyTooLarge { limit }.into()),
        Ok(Err(error)) => Err(DoorError::BodyCut(axum::Error::new(error)).into()),
        Err(_) => Err(DoorError::BodyLate.into()),
    }
}
