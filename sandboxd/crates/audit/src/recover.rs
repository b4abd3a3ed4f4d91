//! Where to continue a record that a daemon has left, perhaps in the middle of a line.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sandboxd_model::limits;

use crate::line::Line;
use crate::{Directory, Entry, Error, Head, Key, entry};

/// Bytes that are read at once, from the end of a file. More than two lines.
const TAIL_BYTES: u64 = 2 * limits::MAX_AUDIT_LINE_BYTES as u64 + 4096;

/// Where a record continues.
#[derive(Debug)]
pub(crate) struct Continuation {
    pub(crate) file: File,
    pub(crate) number: u64,
    /// Size of the file in bytes. It is empty, or ends with a line.
    pub(crate) size: u64,
    pub(crate) head: Head,
    /// What was wrong.
    pub(crate) notes: Vec<Entry>,
}

/// Finds the end of the record. Removes an incomplete last line: no act is answered before its line is complete. `stored` is
/// the newest head that the daemon has stored elsewhere.
pub(crate) fn recover(dir: &Directory, key: &Key, stored: Option<Head>) -> Result<Continuation, Error> {
    let mut numbers = dir.numbers()?;
    let mut found = match numbers.pop() {
        None => {
            let file = dir.begin(1)?;
            Continuation { file, number: 1, size: 0, head: Head::NONE, notes: Vec::new() }
        }
        Some(last) => continue_file(dir, key, last, numbers.pop())?,
    };
    if let Some(stored) = stored.filter(|stored| stored.seq > found.head.seq) {
        let (seq, mac) = (stored.seq, stored.mac.to_string());
        let note = Entry::new(entry::DAMAGED).with("storedSeq", seq).with("storedMac", mac);
        found.notes.push(note.with("lastSeq", found.head.seq));
        // No number is used twice, whatever is missing.
        found.head.seq = stored.seq;
    }
    Ok(found)
}

/// Continues the last file, or begins one after it if its end is damaged. Then nothing of it is changed.
fn continue_file(
    dir: &Directory,
    key: &Key,
    number: u64,
    before: Option<u64>,
) -> Result<Continuation, Error> {
    let file = dir.write(number)?;
    let at_file = |source| dir.error_at(number, source);
    let end = End::read(&file).map_err(at_file)?;
    if !end.is_valid(key) {
        let head = match end.head() {
            Some(head) => head,
            None => head_of(dir, key, before)?.0,
        };
        let notes = vec![Entry::new(entry::DAMAGED).with("file", number)];
        let number = number + 1;
        return Ok(Continuation { file: dir.begin(number)?, number, size: 0, head, notes });
    }
    let mut notes = Vec::new();
    if end.torn_bytes > 0 {
        file.set_len(end.size).map_err(at_file)?;
        notes.push(Entry::new(entry::TORN).with("bytes", end.torn_bytes));
    }
    let head = match end.head() {
        Some(head) => head,
        // The file has just been begun.
        None => {
            let (head, is_valid) = head_of(dir, key, before)?;
            notes.extend((!is_valid).then(|| Entry::new(entry::DAMAGED).with("file", before)));
            head
        }
    };
    Ok(Continuation { file, number, size: end.size, head, notes })
}

/// The last line of a file, and whether it is one of this key. A missing file has no line.
fn head_of(dir: &Directory, key: &Key, number: Option<u64>) -> Result<(Head, bool), Error> {
    let Some(number) = number else { return Ok((Head::NONE, true)) };
    let end = End::read(&dir.read(number)?).map_err(|source| dir.error_at(number, source))?;
    Ok((end.head().unwrap_or(Head::NONE), end.is_valid(key)))
}

/// The end of a file.
struct End {
    /// The last lines, up to two, without their line feeds.
    lines: Vec<Vec<u8>>,
    /// Bytes up to the end of the last line.
    size: u64,
    /// Bytes after it.
    torn_bytes: u64,
}

impl End {
    fn read(file: &File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let from = len.saturating_sub(TAIL_BYTES);
        let mut tail = vec![0; (len - from) as usize];
        file.read_exact_at(&mut tail, from)?;
        let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole = tail[..end].strip_suffix(b"\n");
        let lines = whole.into_iter().flat_map(|whole| whole.rsplit(|byte| *byte == b'\n').take(2));
        let mut lines: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
        lines.reverse();
        // Without a line feed, the bytes before the tail are not known to be lines.
        let size = if end == 0 { 0 } else { from + end as u64 };
        Ok(Self { lines, size, torn_bytes: len - size })
    }

    /// Whether the last line is one of this key, after the line before it. A file without a line is valid, unless it is so
    /// long that it must have had one.
    fn is_valid(&self, key: &Key) -> bool {
        let Some(last) = self.lines.last() else { return self.torn_bytes <= TAIL_BYTES };
        let Some(last) = Line::parse(last) else { return false };
        let previous = match self.lines.len() {
            1 => last.content.entry.text("previous").and_then(|mac| mac.parse().ok()),
            _ => self.lines.first().and_then(|line| Line::parse(line)).map(|line| line.mac),
        };
        previous.is_some_and(|previous| key.mac(&previous, last.body) == last.mac)
    }

    /// Head of the last line that can be read.
    fn head(&self) -> Option<Head> {
        self.lines.iter().rev().find_map(|line| Line::parse(line)).map(|line| line.head())
    }
}
