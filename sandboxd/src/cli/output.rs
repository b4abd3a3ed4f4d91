//! A command's output, written to our own.

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::command::{Output, Record};

/// Writes a record of output where the command wrote it, and what is missing to standard error. Other records are
/// not output.
pub(super) fn write(record: &Record) -> anyhow::Result<()> {
    match record {
        Record::Stdout(output) => write_to(&mut io::stdout().lock(), output),
        Record::Stderr(output) => write_to(&mut io::stderr().lock(), output),
        Record::Gap { dropped_bytes, .. } => {
            Ok(writeln!(io::stderr(), "sandboxd: {dropped_bytes} bytes of output were dropped")?)
        }
        Record::Start { .. } | Record::Heartbeat | Record::Exit { .. } => Ok(()),
    }
}

fn write_to(out: &mut impl Write, output: &Output) -> anyhow::Result<()> {
    match &output.data_base64 {
        Some(base64) => out.write_all(&BASE64_STANDARD.decode(base64)?)?,
        None => out.write_all(output.data.as_bytes())?,
    }
    Ok(out.flush()?)
}

/// Whether an error is that the reader of our own output has closed its end. A broken connection is another error.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
