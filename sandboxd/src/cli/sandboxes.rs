//! Finding sandboxes: all of them, or those that were named.

use futures::StreamExt;
use sandbox_api::sandbox::{ListSandboxes, Sandbox};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use super::{DaemonArgs, text};
use crate::config::Config;

/// Sandboxes asked about at once.
const AT_ONCE: usize = 8;

/// All of these, page by page.
pub(super) async fn all(client: &Client, which: ListSandboxes) -> Result<Vec<Sandbox>, Error> {
    let mut found = Vec::new();
    let mut which = which;
    loop {
        let page = client.list(&which).await?;
        // An empty page with a cursor would never end.
        let is_last = page.next_cursor.is_none() || page.sandboxes.is_empty();
        found.extend(page.sandboxes);
        if is_last {
            return Ok(found);
        }
        which.cursor = page.next_cursor;
    }
}

/// The same with what they take now, which lists do not tell. One that went meanwhile is left out.
pub(super) async fn with_usage(client: &Client, sandboxes: Vec<Sandbox>) -> Result<Vec<Sandbox>, Error> {
    let asked = futures::stream::iter(sandboxes).map(|sandbox| async move {
        match client.get(&sandbox.sandbox_id).await {
            Err(error) if error.code() == Some(ErrorCode::NotFound) => None,
            other => Some(other),
        }
    });
    let found: Vec<_> = asked.buffered(AT_ONCE).collect().await;
    found.into_iter().flatten().collect()
}

/// The sandbox with this id or of this session; `None` where there is none.
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

/// As [`find`], with an error for people if there is none.
pub(super) async fn named(
    client: &Client,
    daemon: &DaemonArgs,
    name: &str,
    config: &Config,
) -> anyhow::Result<Sandbox> {
    let found = find(client, name).await.map_err(|error| daemon.explain(error, config))?;
    found.ok_or_else(|| anyhow::anyhow!(missing(name)))
}

/// What to say of a name that no sandbox has.
pub(super) fn missing(name: &str) -> String {
    format!("there is no sandbox {}; `sandboxd ps` lists them", text::printable(name))
}
