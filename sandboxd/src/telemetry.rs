//! Logging: one subscriber for the process, text for people or JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// Sends log lines to standard error. A second call changes nothing.
pub fn init(filter: &str, json: bool) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // Fails only where a test or an embedding program has set its own.
    let _ = if json { builder.json().finish().try_init() } else { builder.finish().try_init() };
}
