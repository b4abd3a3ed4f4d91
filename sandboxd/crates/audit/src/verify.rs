//! Finds lines that were changed, removed or reordered.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sandboxd_model::limits;

use crate::directory::name;
use crate::line::Line;
use crate::{Directory, Error, Head, Key, Mac, entry};

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 2 * limits::MAX_AUDIT_LINE_BYTES as u64;

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Number of files.
    pub files: u64,
    /// Number of lines.
    pub lines: u64,
    /// Sequence number of the first line that is kept. 0 if there is none.
    pub first_seq: u64,
    /// The last line.
    pub head: Head,
    /// Starts of the daemon that found an incomplete last line, because the daemon before was killed.
    pub torn: u64,
    /// Acts of the daemon itself that were not recorded, because the disk was full.
    pub omitted: u64,
    /// Bytes after the last line: a line that is being written, or of a daemon that was killed.
    pub unfinished_bytes: u64,
    /// What is wrong. At most [`limits::MAX_AUDIT_FAULTS`].
    pub faults: Vec<Fault>,
    /// Number of faults that are not listed.
    pub more_faults: u64,
}

/// A place in the record that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Name of the file.
    pub file: String,
    /// Number of the line in it, from 1. 0 is the file itself.
    pub line: u64,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The line does not have the form of one.
    NotALine,
    /// The line, or its place after the line before it, is not as written.
    Changed,
    /// The sequence number does not follow the one before it.
    OutOfOrder {
        /// The number that follows.
        expected: u64,
        /// The number of the line.
        found: u64,
    },
    /// Files before this one are missing.
    FilesMissing {
        /// Number of the first file that is missing.
        from: u64,
    },
    /// The line is not the one that the daemon has stored as the last one.
    NotAsStored,
    /// Lines at the end are missing, up to the one that the daemon has stored.
    EndMissing {
        /// Sequence number of the stored line.
        stored: u64,
    },
    /// The daemon found lines missing or changed when it started, and said so here.
    FoundAtStart,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALine => f.write_str("not a line of the record"),
            Self::Changed => {
                f.write_str("changed, or the lines before it are not the ones it was written after")
            }
            Self::OutOfOrder { expected, found } => {
                write!(f, "has number {found} where {expected} follows; lines are missing or reordered")
            }
            Self::FilesMissing { from } => {
                write!(f, "the files from {} up to this one are missing", name(*from))
            }
            Self::NotAsStored => f.write_str("not the line that the daemon stored or logged"),
            Self::EndMissing { stored } => {
                write!(f, "the last lines are missing, up to number {stored}")
            }
            Self::FoundAtStart => {
                f.write_str("the daemon found missing or changed lines when it started here")
            }
        }
    }
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_intact(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Checks all files of a directory. `stored` are heads that the daemon has stored elsewhere. They must have been read before,
/// because a running daemon continues.
pub fn verify(path: &Path, key: &Key, stored: &[Head]) -> Result<Report, Error> {
    let dir = Directory::open(path)?;
    let mut check = Check::new(key, stored);
    for number in dir.numbers()? {
        match dir.read(number) {
            Ok(file) => {
                check.file(number, BufReader::new(file)).map_err(|source| dir.error_at(number, source))?;
            }
            // A running daemon may have removed it as the oldest.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(check.finish())
}

struct Check<'a> {
    key: &'a Key,
    stored: &'a [Head],
    report: Report,
    /// The first file, and the last one so far.
    first: Option<u64>,
    number: u64,
    line: u64,
    /// Files up to this number were removed by the daemon.
    removed_through: u64,
}

impl<'a> Check<'a> {
    fn new(key: &'a Key, stored: &'a [Head]) -> Self {
        let report = Report {
            files: 0,
            lines: 0,
            first_seq: 0,
            head: Head::NONE,
            torn: 0,
            omitted: 0,
            unfinished_bytes: 0,
            faults: Vec::new(),
            more_faults: 0,
        };
        Self { key, stored, report, first: None, number: 0, line: 0, removed_through: 0 }
    }

    fn file(&mut self, number: u64, mut lines: impl BufRead) -> io::Result<()> {
        if self.report.unfinished_bytes > 0 {
            // Only the last file may end within a line.
            self.fault(FaultKind::NotALine);
        }
        let expected = self.number + 1;
        (self.number, self.line) = (number, 0);
        self.report.files += 1;
        match self.first {
            None => self.first = Some(number),
            Some(_) if number != expected => self.fault(FaultKind::FilesMissing { from: expected }),
            Some(_) => {}
        }
        self.report.unfinished_bytes = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            self.line += 1;
            match line.strip_suffix(b"\n") {
                Some(line) => self.line(line),
                None if (line.len() as u64) < MAX_LINE => {
                    self.report.unfinished_bytes = line.len() as u64;
                }
                None => self.fault(FaultKind::NotALine),
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.report.lines += 1;
        let Some(line) = Line::parse(line) else { return self.fault(FaultKind::NotALine) };
        let head = line.head();
        let is_first = self.report.first_seq == 0;
        if is_first {
            self.report.first_seq = head.seq;
        } else if head.seq != self.report.head.seq + 1 {
            let expected = self.report.head.seq + 1;
            self.fault(FaultKind::OutOfOrder { expected, found: head.seq });
        }
        let previous = if is_first { self.before_first(&line) } else { self.report.head.mac };
        if self.key.mac(&previous, line.body) != line.mac || !self.begins_file_rightly(&line, &previous) {
            self.fault(FaultKind::Changed);
        } else {
            self.note(&line);
        }
        if self.stored.iter().any(|stored| stored.seq == head.seq && stored.mac != head.mac) {
            self.fault(FaultKind::NotAsStored);
        }
        self.report.head = head;
    }

    /// What the first line that is kept was written after.
    fn before_first(&self, line: &Line<'_>) -> Mac {
        let named = line.content.entry.text("previous").and_then(|mac| mac.parse().ok());
        named.filter(|_| self.number > 1).unwrap_or(Mac::ZERO)
    }

    /// Whether the first line of a file, and no other, names the file and what is before it.
    fn begins_file_rightly(&self, line: &Line<'_>, previous: &Mac) -> bool {
        let entry = &line.content.entry;
        match entry.act == entry::FILE {
            false => self.line > 1,
            true => {
                self.line == 1
                    && entry.number("file") == Some(self.number)
                    && entry.text("previous") == Some(&previous.to_string())
            }
        }
    }

    /// Notes what an authentic line says about the record itself.
    fn note(&mut self, line: &Line<'_>) {
        let entry = &line.content.entry;
        match entry.act.as_ref() {
            entry::TORN => self.report.torn += 1,
            entry::OMITTED => self.report.omitted += entry.number("lines").unwrap_or_default(),
            entry::DAMAGED => self.fault(FaultKind::FoundAtStart),
            entry::REMOVE => {
                let through = entry.number("through").unwrap_or_default();
                self.removed_through = self.removed_through.max(through);
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Report {
        let stored = self.stored.iter().map(|stored| stored.seq).max();
        if let Some(stored) = stored.filter(|stored| *stored > self.report.head.seq) {
            self.fault(FaultKind::EndMissing { stored });
        }
        // A daemon that is killed may not have removed all that it was about to remove.
        if let Some(first) = self.first.filter(|first| *first > self.removed_through + 1) {
            (self.number, self.line) = (first, 0);
            self.fault(FaultKind::FilesMissing { from: self.removed_through + 1 });
        }
        self.report
    }

    fn fault(&mut self, kind: FaultKind) {
        if self.report.faults.len() >= limits::MAX_AUDIT_FAULTS {
            self.report.more_faults += 1;
            return;
        }
        self.report.faults.push(Fault { file: name(self.number.max(1)), line: self.line, kind });
    }
}
