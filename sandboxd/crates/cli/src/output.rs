//! Writes a command's output to our own output.

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::command::{Output, Record};

/// Writes output to the stream that the command used, and a note about dropped output to standard error. Other records
/// are not printed.
pub(super) fn write(record: &Record) -> anyhow::Result<()> {
    match record {
        Record::Stdout(output) => write_to(&mut io::stdout().lock(), output),
        Record::Stderr(output) | Record::Trace(output) => write_to(&mut io::stderr().lock(), output),
        Record::Gap { dropped_bytes, .. } => {
            Ok(writeln!(io::stderr(), "sandboxd: {dropped_bytes} bytes of output were dropped")?)
        }
        Record::Start { .. } | Record::Heartbeat | Record::Stage(_) | Record::Exit { .. } => Ok(()),
    }
}

fn write_to(out: &mut impl Write, output: &Output) -> anyhow::Result<()> {
    match &output.data_base64 {
        Some(base64) => out.write_all(&BASE64_STANDARD.decode(base64)?)?,
        None => out.write_all(output.data.as_bytes())?,
    }
    Ok(out.flush()?)
}

/// Whether the error means that the reader of our own output has closed its end. A broken connection is a different
/// error.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
