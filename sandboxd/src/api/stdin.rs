//! Standard input of a command: streams the body of a request.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use sandbox_api::Done;
use tokio::time::timeout;

use super::body::Json;
use super::caller::User;
use super::error::Result;
use super::openapi::InCommand;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use crate::model::limits;

/// Write to a command's standard input.
///
/// The command must have been started with `openStdin`. The body may have any length and type, and is read only as
/// fast as the command accepts it. With `close`, standard input is closed after the body.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/commands/{commandId}/stdin", operation_id = "writeStdin",
    tag = "commands", params(InCommand, ("close" = Option<bool>, Query, description = "Closes standard input after the body.")),
    request_body(content_type = "application/octet-stream", description = "Bytes to write."),
    responses((status = 200, body = Done), ByName, ByQuery, ByState, ByUpload, BySandbox))]
pub(super) async fn write(
    User(access): User,
    Path((id, command)): Path<(String, String)>,
    query: Params,
    body: Body,
) -> Result<Json<Done>> {
    let (id, command) = (access.sandbox(params::sandbox(&id)?)?, params::command(&command)?);
    let close = params::optional(&query, "close", "`true` or `false`")?.unwrap_or(false);
    access.commands().write_stdin(&id, &command, data_of(body), close).await?;
    Ok(Json(Done::OK))
}

/// Streams the body. Fails if no bytes arrive for too long; the total time is not limited.
fn data_of(body: Body) -> BoxStream<'static, io::Result<Bytes>> {
    let pieces = futures::stream::unfold(body.into_data_stream(), |mut body| async move {
        let piece = match timeout(limits::STDIN_SILENCE, body.next()).await {
            Ok(piece) => piece?.map_err(io::Error::other),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        Some((piece, body))
    });
    pieces.boxed()
}
