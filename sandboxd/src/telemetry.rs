//! Logging: one subscriber for the process, as human-readable text or as JSON.
//!
//! A JSON line is one object with `timestamp`, `level`, `target`, `message` and the event's own fields, such as `request_id`
//! and `sandbox`. Events inside a request also have its id in `span`. The message of an error is in `error`, and the messages
//! of its causes are in `causes`. Text has the causes in `error.sources`. Control characters and bidirectional marks are
//! escaped in both formats.

use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal};
use std::mem;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use log_text::{EscapedFields, escape_json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Directives in front of the operator's, which may name the same targets. The MCP library logs requests, notifications
/// and session ids at every level: they contain private text of any length, and a session id gives access to a session.
const QUIET: &str = "rmcp=off";

/// Time for the line that a thread is writing. It is longer only if standard error is a full pipe that is not read.
const LAST_LINE_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes log lines to standard error. A second call has no effect.
pub fn init(filter: &str, json: bool) {
    let filter = with_quiet(filter);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only if a test or an embedding program has set its own subscriber.
    let _ = if json {
        let builder = builder.json().flatten_event(true).with_span_list(false);
        builder.map_event_format(Escaped).finish().try_init()
    } else {
        builder.fmt_fields(EscapedFields).with_ansi(std::io::stderr().is_terminal()).finish().try_init()
    };
}

/// Waits until the line that a thread is writing is complete, for at most [`LAST_LINE_TIMEOUT`], and lets no other line
/// begin. To be called right before the process exits: an exit ends the other threads during a write (exit_group(2)), which
/// leaves a part of a line.
pub fn end() {
    let (finished, is_finished) = mpsc::channel();
    let finish = move || {
        mem::forget(io::stderr().lock());
        let _ = finished.send(());
    };
    if thread::Builder::new().spawn(finish).is_ok() {
        let _ = is_finished.recv_timeout(LAST_LINE_TIMEOUT);
    }
}

fn with_quiet(filter: &str) -> EnvFilter {
    EnvFilter::try_new(format!("{QUIET},{filter}"))
        .unwrap_or_else(|_| EnvFilter::new(format!("{QUIET},info")))
}

/// Adds an error's causes to a JSON line, because the JSON formatter writes only the error's message. Also escapes characters
/// that JSON does not escape.
struct Escaped<F>(F);

impl<S, N, F> FormatEvent<S, N> for Escaped<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut causes = Causes::default();
        event.record(&mut causes);
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let mut line = line.trim_end().to_owned();
        if !causes.0.is_empty() {
            let object = line.strip_suffix('}').ok_or(fmt::Error)?;
            let causes = serde_json::to_string(&causes.0).map_err(|_| fmt::Error)?;
            line = format!(r#"{object},"causes":{causes}}}"#);
        }
        writeln!(writer, "{}", escape_json(&line))
    }
}

/// Messages of the causes of an event's errors, from the first to the root.
#[derive(Default)]
struct Causes(Vec<String>);

impl Visit for Causes {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_error(&mut self, _: &Field, error: &(dyn Error + 'static)) {
        let mut above = error.to_string();
        for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
            let message = cause.to_string();
            // Many errors repeat the message of their cause, or only wrap it.
            if message != above {
                self.0.push(message.clone());
                above = message;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use tracing::subscriber::with_default;
    use tracing::{Level, enabled};

    use super::*;

    /// Longer than a pipe holds.
    const LINE_BYTES: usize = 1 << 20;
    const IS_WRITER: &str = "WRITES_THE_LAST_LINE";

    /// The test starts itself as the program that writes a line while it exits.
    #[test]
    fn an_exit_leaves_no_part_of_a_line() {
        if std::env::var_os(IS_WRITER).is_some() {
            return exit_during_a_line();
        }
        let test = "telemetry::tests::an_exit_leaves_no_part_of_a_line";
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", test])
            .env(IS_WRITER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = writer.stderr.take().unwrap();
        let mut first = [0];
        log.read_exact(&mut first).unwrap();
        drop(writer.stdin.take());
        let mut rest = Vec::new();
        log.read_to_end(&mut rest).unwrap();
        assert!(writer.wait().unwrap().success());
        assert_eq!((rest.len(), rest.last()), (LINE_BYTES, Some(&b'\n')));
    }

    /// Begins to write a line, and exits as soon as the test has read its first byte.
    fn exit_during_a_line() {
        let mut line = "x".repeat(LINE_BYTES);
        line.push('\n');
        thread::spawn(move || io::stderr().write_all(line.as_bytes()));
        io::stdin().read_to_end(&mut Vec::new()).unwrap();
        end();
    }

    #[test]
    fn the_mcp_library_logs_only_if_the_operator_names_it() {
        let is_logged = |filter: &str| {
            let subscriber = tracing_subscriber::fmt().with_env_filter(with_quiet(filter)).finish();
            with_default(subscriber, || {
                (
                    enabled!(target: "rmcp::service", Level::ERROR),
                    enabled!(target: "rmcp::service", Level::INFO),
                    enabled!(target: "sandboxd", Level::INFO),
                )
            })
        };
        assert_eq!(is_logged("info"), (false, false, true));
        assert_eq!(is_logged("trace"), (false, false, true));
        assert_eq!(is_logged("sandboxd=loud"), (false, false, true));
        assert_eq!(is_logged("info,rmcp=info"), (true, true, true));
    }
}
