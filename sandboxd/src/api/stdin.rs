//! A command's standard input: bytes from a request's body, as they come.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use sandbox_api::Done;
use tokio::time::timeout;

use super::ApiState;
use super::body::Json;
use super::error::Result;
use super::params::{self, Params, Path};
use crate::agent::StdinData;
use crate::model::limits;

/// `POST …/commands/{command}/stdin`. The body is of any length and type, and none of it is read before the command
/// can take it.
pub(super) async fn write(
    State(state): State<ApiState>,
    Path((id, command)): Path<(String, String)>,
    query: Params,
    body: Body,
) -> Response {
    let write = async {
        let (id, command) = (params::sandbox(&id)?, params::command(&command)?);
        let close = params::optional(&query, "close", "`true` or `false`")?.unwrap_or(false);
        Ok(state.service.write_stdin(&id, &command, data_of(body), close).await?)
    };
    let written: Result<()> = write.await;
    match written {
        Ok(()) => Json(Done::OK).into_response(),
        // What is left of the body is not read, so the client must not send another request after it.
        Err(refused) => ([(CONNECTION, HeaderValue::from_static("close"))], refused).into_response(),
    }
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
