//! Changes as lines of JSON: `GET …/files:watch?path=`.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use sandbox_api::NDJSON;
use sandbox_api::files::WatchRecord;
use tokio::time::timeout;
use tracing::debug;

use super::{path_of, wire};
use crate::agent::ChangeStream;
use crate::api::ApiState;
use crate::api::error::Result;
use crate::api::params::{self, Params, Path, PathParam};
use crate::model::limits;

/// `GET …/files:watch`
pub(in crate::api) async fn watch(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
) -> Result<Response> {
    let id = params::sandbox(&id)?;
    let recursive = params::optional(&query, "recursive", "`true` or `false`")?.unwrap_or(false);
    let changes = state.service.watch_files(&id, path_of("path", path)?, recursive).await?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(NDJSON)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(lines(changes))).into_response())
}

/// The changes, with a heartbeat in the silence between them. Where the sandbox goes away, so does the stream, without
/// the record that would be its end.
fn lines(changes: ChangeStream) -> impl Stream<Item = std::result::Result<Bytes, Infallible>> + Send {
    futures::stream::unfold(changes, |mut changes| async move {
        let records = match timeout(limits::HEARTBEAT, changes.next()).await {
            Err(_) => vec![WatchRecord::Heartbeat],
            Ok(Some(Ok(batch))) => batch.into_iter().map(wire::change).collect(),
            Ok(Some(Err(error))) => {
                debug!(error = &error as &dyn std::error::Error, "a watch broke off");
                return None;
            }
            Ok(None) => return None,
        };
        Some((Ok(encode(&records)), changes))
    })
}

fn encode(records: &[WatchRecord]) -> Bytes {
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, record).expect("records have string keys and finite numbers");
        lines.push(b'\n');
    }
    lines.into()
}
