//! Logging: one subscriber for the process, text for people or JSON for machines.
//!
//! A JSON line is one object: `timestamp`, `level`, `target`, `message` and the event's own fields beside
//! them, such as `request_id` and `sandbox`. What happens inside a request has it in `span` as well.

use std::io::IsTerminal;

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// Sends log lines to standard error. A second call changes nothing.
pub fn init(filter: &str, json: bool) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only where a test or an embedding program has set its own.
    let _ = if json {
        panics_are_logged();
        builder.json().flatten_event(true).with_span_list(false).finish().try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init()
    };
}

/// A panic's own words are several lines of text, which no reader of JSON expects.
fn panics_are_logged() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        error!(place, panic = panic.payload_as_str(), "a bug: a part of the daemon panicked");
    }));
}
