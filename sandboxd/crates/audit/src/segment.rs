//! A file that is written.
//!
//! After a failed sync, the kernel has marked the pages as written although they are not, so the next sync succeeds without
//! them. Writing them again does not help either: on ext4, the blocks then still count as never written, and read as zeros
//! after the next mount. So the whole file is read, checked against its chain, and written to a new one, which takes its place
//! when it is on the disk. If the lines cannot be read any more, the file stays in doubt.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::line::Line;
use crate::{Directory, Error, Key, Mac};

/// A file of lines.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) file: Arc<File>,
    pub(crate) number: u64,
    /// Bytes of the file's lines. More are in the file after a write that failed.
    pub(crate) size: u64,
    /// MAC of the last line.
    mac: Mac,
}

impl Segment {
    /// A file with lines of this size, of which the last one has this MAC.
    pub(crate) fn new(file: File, number: u64, size: u64, mac: Mac) -> Self {
        Self { file: Arc::new(file), number, size, mac }
    }

    /// Writes a line with this MAC. If it fails, nothing of the line counts.
    pub(crate) fn write(&mut self, line: &[u8], mac: Mac) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(line, self.size) {
            // If this fails too, the next line overwrites the rest, or the next start removes it.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += line.len() as u64;
        self.mac = mac;
        Ok(())
    }

    /// Writes its lines to a new file, which takes its place.
    pub(crate) fn replace(&mut self, dir: &Directory, key: &Key) -> Result<(), Error> {
        let at_file = |source| dir.error_at(self.number, source);
        let mut lines = vec![0; self.size as usize];
        self.file.read_exact_at(&mut lines, 0).map_err(at_file)?;
        if !self.is_chain(&lines, key) {
            let lost = "lines were lost by a failed sync; the next start says which";
            return Err(at_file(io::Error::other(lost)));
        }
        let mut next = dir.begin_replacement()?;
        next.write_all(&lines).and_then(|()| next.sync_data()).map_err(at_file)?;
        dir.finish_replacement(self.number)?;
        self.file = Arc::new(next);
        Ok(())
    }

    /// Whether these are all lines that were written.
    fn is_chain(&self, lines: &[u8], key: &Key) -> bool {
        let mut previous = None;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n").and_then(Line::parse) else { return false };
            // The first line of a file names it.
            let named = || line.content.entry.text("previous").and_then(|mac| mac.parse().ok());
            let Some(before) = previous.or_else(named) else { return false };
            if key.mac(&before, line.body) != line.mac {
                return false;
            }
            previous = Some(line.mac);
        }
        previous.is_none_or(|last| last == self.mac)
    }
}
