//! A command's standard input: bytes from a request's body, as they come.

use std::io;

use axum::body::Body;
use axum::extract::State;
use futures::StreamExt;
use sandbox_api::Done;
use tokio::time::timeout;

use super::ApiState;
use super::body::Json;
use super::error::Result;
use super::openapi::InCommand;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use crate::agent::StdinData;
use crate::model::limits;

/// Write to a command's standard input
///
/// Of a command that was started with `openStdin`. The body is of any length and type, and none of it is read before the
/// command can take it. With `close` the input ends after it.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/commands/{commandId}/stdin", operation_id = "writeStdin",
    tag = "commands", params(InCommand, ("close" = Option<bool>, Query, description = "Nothing follows.")),
    request_body(content_type = "application/octet-stream", description = "What is written."),
    responses((status = 200, body = Done), ByName, ByQuery, ByState, ByUpload, BySandbox))]
pub(super) async fn write(
    State(state): State<ApiState>,
    Path((id, command)): Path<(String, String)>,
    query: Params,
    body: Body,
) -> Result<Json<Done>> {
    let (id, command) = (params::sandbox(&id)?, params::command(&command)?);
    let close = params::optional(&query, "close", "`true` or `false`")?.unwrap_or(false);
    state.service.write_stdin(&id, &command, data_of(body), close).await?;
    Ok(Json(Done::OK))
}

/// The body's bytes; a failure where they stop coming. They may take as long as they like otherwise.
fn data_of(body: Body) -> StdinData {
    let pieces = futures::stream::unfold(body.into_data_stream(), |mut body| async move {
        let piece = match timeout(limits::STDIN_SILENCE, body.next()).await {
            Ok(piece) => piece?.map_err(io::Error::other),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        Some((piece, body))
    });
    pieces.boxed()
}
