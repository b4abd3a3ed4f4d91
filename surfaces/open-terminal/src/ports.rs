//! Servers that listen in the sandbox.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::access::Chat;
use crate::discovery::ok;
use crate::server::Answer;

/// Open WebUI polls it, so it neither opens nor wakes a sandbox.
pub(crate) async fn list(chat: Chat) -> Answer {
    let listening = match chat.find().await? {
        Some(sandbox) => chat.client.ports(&sandbox).await?.listening,
        None => Vec::new(),
    };
    // A server may listen on several addresses.
    let by_port: BTreeMap<u16, Value> = listening
        .into_iter()
        .map(|found| (found.port, json!({ "port": found.port, "pid": found.pid, "process": found.process })))
        .collect();
    Ok(ok(&json!({ "ports": by_port.into_values().collect::<Vec<_>>() })))
}
