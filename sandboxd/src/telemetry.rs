//! Logging: one subscriber for the process, text for people or JSON for machines.
//!
//! A JSON line is one object: `timestamp`, `level`, `target`, `message` and the event's own fields beside
//! them, such as `request_id` and `sandbox`. What happens inside a request has it in `span` as well. An error
//! is its own sentence in `error`, and those of its causes in `causes`; text has them in `error.sources`. Control
//! characters and marks of direction are escaped in both.

use std::error::Error;
use std::fmt;
use std::io::IsTerminal;

use log_text::{EscapedFields, escape_json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Sends log lines to standard error. A second call changes nothing.
pub fn init(filter: &str, json: bool) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only where a test or an embedding program has set its own.
    let _ = if json {
        let builder = builder.json().flatten_event(true).with_span_list(false);
        builder.map_event_format(Escaped).finish().try_init()
    } else {
        builder.fmt_fields(EscapedFields).with_ansi(std::io::stderr().is_terminal()).finish().try_init()
    };
}

/// Adds an error's causes to a JSON line, whose own writer knows only the error's sentence, and escapes what JSON does not.
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

/// What the causes of an event's errors say, from the first to the root.
#[derive(Default)]
struct Causes(Vec<String>);

impl Visit for Causes {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_error(&mut self, _: &Field, error: &(dyn Error + 'static)) {
        let mut above = error.to_string();
        for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
            let sentence = cause.to_string();
            // Many an error repeats the words of its cause, or is nothing but a wrapper of it.
            if sentence != above {
                self.0.push(sentence.clone());
                above = sentence;
            }
        }
    }
}
