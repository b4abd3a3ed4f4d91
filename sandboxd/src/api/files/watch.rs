//! Change events as JSON lines: `GET …/files:watch?path=`.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::empty;
use futures::{Stream, StreamExt};
use sandbox_api::NDJSON;
use sandbox_api::files::WatchRecord;
use tokio::time::timeout;
use tracing::debug;

use super::super::caller::Reader;
use super::{path_of, wire};
use crate::api::error::Result;
use crate::api::openapi::InSandbox;
use crate::api::openapi::answers::*;
use crate::api::params::{self, Params, Path, PathParam};
use crate::model::files::Change;
use crate::model::limits;
use crate::service;

/// Watch files.
///
/// Streams JSON lines: first `ready`, after which every change is reported, then changes, with a heartbeat after
/// every 15 seconds of silence. The last record is `gone` if the watched path is gone, or `lost` if the sandbox's
/// container stopped. The sandbox counts as used until the client closes the stream. With `passive`, it does not, and
/// a parked sandbox is not woken: the only record is `lost`.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files:watch", operation_id = "watchFiles", tag = "files",
    params(InSandbox, ("path" = Option<String>, Query, description = "Directory or file to watch. Default: the workspace."),
        ("recursive" = Option<bool>, Query, description = "Also watches everything below the directory."),
        ("passive" = Option<bool>, Query, description = "Does not count as use of the sandbox. The watch ends when the sandbox is parked.")),
    responses((status = 200, description = "One change per line.", body = WatchRecord, content_type = "application/x-ndjson"), ByName, ByQuery, BySandbox))]
pub(in crate::api) async fn watch(
    Reader(access): Reader,
    Path(id): Path<String>,
    PathParam(path): PathParam,
    query: Params,
) -> Result<Response> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let recursive = params::optional(&query, "recursive", "`true` or `false`")?.unwrap_or(false);
    let is_passive = params::optional(&query, "passive", "`true` or `false`")?.unwrap_or(false);
    let (files, path) = (access.files(), path_of("path", path)?);
    let changes = if is_passive {
        // A stream without a record ends as lost.
        files.watch_passively(&id, path, recursive).await?.map_or_else(|| empty().boxed(), StreamExt::boxed)
    } else {
        files.watch(&id, path, recursive).await?.boxed()
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(NDJSON)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(lines(changes))).into_response())
}

/// Streams changes, with heartbeats in between. Never fails: if the watch breaks off, it ends as `lost`.
fn lines(
    changes: impl Stream<Item = std::result::Result<Vec<Change>, service::Error>> + Send + Unpin,
) -> impl Stream<Item = std::result::Result<Bytes, Infallible>> + Send {
    futures::stream::unfold(Some(changes), |changes| async move {
        let mut changes = changes?;
        let records = match timeout(limits::HEARTBEAT, changes.next()).await {
            Err(_) => vec![WatchRecord::Heartbeat],
            Ok(Some(Ok(batch))) => batch.into_iter().map(wire::change).collect(),
            Ok(Some(Err(error))) => {
                debug!(error = &error as &dyn std::error::Error, "the connection of a watch broke");
                vec![WatchRecord::Lost]
            }
            // A watch ends with a record. Without one it was cut off.
            Ok(None) => vec![WatchRecord::Lost],
        };
        let is_over = matches!(records.last(), Some(WatchRecord::Gone | WatchRecord::Lost));
        Some((Ok(encode(&records)), Some(changes).filter(|_| !is_over)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Error;

    async fn sent(batches: Vec<std::result::Result<Vec<Change>, Error>>) -> String {
        let lines = lines(futures::stream::iter(batches)).map(|line| line.unwrap());
        String::from_utf8(lines.collect::<Vec<_>>().await.concat()).unwrap()
    }

    #[tokio::test]
    async fn a_watch_reports_how_it_ended() {
        let (ready, lost, gone) =
            ("{\"event\":\"ready\"}\n", "{\"event\":\"lost\"}\n", "{\"event\":\"gone\"}\n");
        let broken = || Err(Error::ConcurrentTransitions);
        assert_eq!(sent(vec![Ok(vec![Change::Ready]), broken()]).await, format!("{ready}{lost}"));
        assert_eq!(sent(vec![Ok(vec![Change::Ready])]).await, format!("{ready}{lost}"));
        let over = vec![Ok(vec![Change::Ready, Change::Gone]), broken()];
        assert_eq!(sent(over).await, format!("{ready}{gone}"));
    }
}
