//! Bounded reading of files, and how those are skipped that cannot be used.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

use crate::text;

/// Maximum size of a lock file in bytes. Those of large projects have about 5 MB.
pub(super) const MAX_LOCK_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Maximum size of a `package.json` in bytes.
pub(super) const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

/// Reads a file. `None` if it does not exist. Links are followed, as package managers create them.
pub(super) fn read(path: &Path, max_bytes: u64) -> anyhow::Result<Option<Vec<u8>>> {
    let failed = || format!("{} cannot be read", path.display());
    // Opening a pipe would wait for its writer.
    let file = match File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened.with_context(failed)?,
    };
    anyhow::ensure!(file.metadata().with_context(failed)?.is_file(), "{} is not a file", path.display());
    let mut content = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut content).with_context(failed)?;
    anyhow::ensure!(content.len() as u64 <= max_bytes, "{} is longer than {max_bytes} bytes", path.display());
    Ok(Some(content))
}

/// The result of reading a file. A file that cannot be read is reported and then treated as missing, so that another may
/// answer.
pub(super) fn readable<T>(read: anyhow::Result<T>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(error) => {
            // If standard error is closed, it cannot be reported.
            let _ = writeln!(io::stderr(), "sandboxd: skipped: {}", text::printable(&format!("{error:#}")));
            None
        }
    }
}
