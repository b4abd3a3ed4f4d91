//! Looks up sandboxes: all of them, or one by its name.

use futures::StreamExt;
use sandbox_api::sandbox::{ListSandboxes, Sandbox};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::{DaemonArgs, text};
use sandboxd_config::Config;

/// Maximum number of concurrent requests for details.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// All sandboxes that match, from all pages of the list.
pub(super) async fn all(client: &Client, which: ListSandboxes) -> Result<Vec<Sandbox>, Error> {
    let mut found = Vec::new();
    let mut which = which;
    loop {
        let page = client.list(&which).await?;
        // Pages that are empty but have a cursor could make this loop endless.
        let is_last = page.next_cursor.is_none() || page.sandboxes.is_empty();
        found.extend(page.sandboxes);
        if is_last {
            return Ok(found);
        }
        which.cursor = page.next_cursor;
    }
}

/// Adds the current usage, which lists do not contain. Sandboxes that were deleted in the meantime are skipped.
pub(super) async fn with_usage(client: &Client, sandboxes: Vec<Sandbox>) -> Result<Vec<Sandbox>, Error> {
    let requests = futures::stream::iter(sandboxes).map(|sandbox| async move {
        match client.get(&sandbox.sandbox_id).await {
            Err(error) if error.code() == Some(ErrorCode::NotFound) => None,
            other => Some(other),
        }
    });
    let found: Vec<_> = requests.buffered(MAX_CONCURRENT_REQUESTS).collect().await;
    found.into_iter().flatten().collect()
}

/// The sandbox with this id or session key. `None` if there is none.
pub(super) async fn find(client: &Client, name: &str) -> Result<Option<Sandbox>, Error> {
    if let Ok(id) = name.parse::<SandboxId>() {
        return match client.get(&id).await {
            Err(error) if error.code() == Some(ErrorCode::NotFound) => Ok(None),
            other => other.map(Some),
        };
    }
    let which = ListSandboxes { session_key: Some(name.to_owned()), ..ListSandboxes::default() };
    Ok(all(client, which).await?.into_iter().find(|sandbox| sandbox.session_key == name.trim()))
}

/// Like [`find`], but returns an error if there is no such sandbox.
pub(super) async fn require(
    client: &Client,
    daemon: &DaemonArgs,
    name: &str,
    config: &Config,
) -> anyhow::Result<Sandbox> {
    let found = find(client, name).await.map_err(|error| daemon.explain(error, config))?;
    found.ok_or_else(|| anyhow::anyhow!(missing(name)))
}

/// Error message for a name without a sandbox.
pub(super) fn missing(name: &str) -> String {
    format!("no such sandbox: {}; `sandboxd ps` lists all sandboxes", text::printable(name))
}
