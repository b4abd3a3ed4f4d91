//! The writer of the record.
//!
//! A line is written with one system call, in the caller's thread: it goes into the page cache, which takes microseconds.
//! [`Record::sync`] makes lines durable.
//!
//! If a line cannot be written, [`Record::append`] fails, and what was written of it is removed. Lines that cannot fail
//! anything any more wait in memory, within a bound, and are written before the next line.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sandboxd_model::limits;

use crate::recover::{Continuation, recover};
use crate::{Directory, Entry, Error, Head, Key, entry};

/// Sizes of a record.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Size after which the next file begins, in bytes.
    pub max_file_bytes: u64,
    /// Number of files that are kept. 0 is all.
    pub kept_files: u64,
}

/// The record, open for writing. There is one for each directory.
#[derive(Debug)]
pub struct Record {
    dir: Directory,
    key: Key,
    options: Options,
    state: Mutex<State>,
    /// The newest head that is durable. Held during a sync, so that those who wait for it share the next one.
    synced: Mutex<Head>,
}

#[derive(Debug)]
struct State {
    file: Arc<File>,
    number: u64,
    /// Bytes of the file's lines. More are in the file after a write that failed.
    size: u64,
    head: Head,
    /// Lines that could not be written yet.
    waiting: VecDeque<(Timestamp, Entry)>,
    /// Lines that did not fit there.
    omitted: u64,
}

impl Record {
    /// Opens or creates the record in a directory and continues it. `stored` is the newest head that was stored elsewhere.
    pub fn open(path: &Path, key: Key, options: Options, stored: Option<Head>) -> Result<Self, Error> {
        let dir = Directory::create(path)?;
        let Continuation { file, number, size, head, notes } = recover(&dir, &key, stored)?;
        let state = State { file: Arc::new(file), number, size, head, waiting: VecDeque::new(), omitted: 0 };
        let record = Self { dir, key, options, state: Mutex::new(state), synced: Mutex::new(Head::NONE) };
        for note in notes {
            // On a full disk, they wait for the first line that can be written.
            let _ = record.note(note);
        }
        Ok(record)
    }

    /// Writes a line and returns its sequence number. If it fails, nothing of the line is in the record.
    pub fn append(&self, entry: &Entry) -> Result<u64, Error> {
        let mut state = self.state();
        self.write_waiting(&mut state)?;
        self.write(&mut state, Timestamp::now(), entry)?;
        Ok(state.head.seq)
    }

    /// Writes a line of something that has happened. If it cannot be written now, it waits in memory and the error says why.
    pub fn note(&self, entry: Entry) -> Result<(), Error> {
        let mut state = self.state();
        if state.waiting.len() >= limits::MAX_WAITING_AUDIT_LINES {
            state.omitted += 1;
        } else {
            state.waiting.push_back((Timestamp::now(), entry));
        }
        self.write_waiting(&mut state)
    }

    /// Makes all lines durable and returns the last one. Blocks while the disk works.
    pub fn sync(&self) -> Result<Head, Error> {
        let target = {
            let mut state = self.state();
            self.write_waiting(&mut state)?;
            state.head.seq
        };
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if synced.seq >= target && target > 0 {
            return Ok(*synced);
        }
        let (file, head, number) = {
            let state = self.state();
            (Arc::clone(&state.file), state.head, state.number)
        };
        // Earlier files were synced when this one was begun.
        file.sync_data().map_err(|source| self.dir.error_at(number, source))?;
        *synced = head;
        Ok(head)
    }

    fn write_waiting(&self, state: &mut State) -> Result<(), Error> {
        while let Some((at, entry)) = state.waiting.front() {
            let (at, entry) = (*at, entry.clone());
            self.write(state, at, &entry)?;
            state.waiting.pop_front();
        }
        if state.omitted > 0 {
            let omitted = Entry::new(entry::OMITTED).with("lines", state.omitted);
            self.write(state, Timestamp::now(), &omitted)?;
            state.omitted = 0;
        }
        Ok(())
    }

    fn write(&self, state: &mut State, at: Timestamp, entry: &Entry) -> Result<(), Error> {
        if state.size == 0 {
            self.write_first_line(state)?;
        }
        let (mut line, mut head) = self.key.seal(&state.head, at, entry);
        if state.size + line.len() as u64 > self.options.max_file_bytes {
            self.begin_file(state)?;
            (line, head) = self.key.seal(&state.head, at, entry);
        }
        self.write_line(state, &line, head)
    }

    /// Writes what each file begins with.
    fn write_first_line(&self, state: &mut State) -> Result<(), Error> {
        let first = Entry::new(entry::FILE).with("file", state.number);
        let first = first.with("previous", state.head.mac.to_string());
        let (line, head) = self.key.seal(&state.head, Timestamp::now(), &first);
        self.write_line(state, &line, head)
    }

    fn write_line(&self, state: &mut State, line: &[u8], head: Head) -> Result<(), Error> {
        if let Err(source) = state.file.write_all_at(line, state.size) {
            // If this fails too, the next line overwrites the rest, or the next start removes it.
            let _ = state.file.set_len(state.size);
            return Err(self.dir.error_at(state.number, source));
        }
        state.size += line.len() as u64;
        state.head = head;
        Ok(())
    }

    /// Begins the next file, and removes files that are not kept any more.
    fn begin_file(&self, state: &mut State) -> Result<(), Error> {
        state.file.sync_data().map_err(|source| self.dir.error_at(state.number, source))?;
        let file = self.dir.begin(state.number + 1)?;
        state.file = Arc::new(file);
        state.number += 1;
        state.size = 0;
        self.write_first_line(state)?;
        self.remove_old(state)
    }

    /// The line that says which files are removed is durable before any of them is removed.
    fn remove_old(&self, state: &mut State) -> Result<(), Error> {
        let through = match self.options.kept_files {
            0 => return Ok(()),
            kept => state.number.saturating_sub(kept),
        };
        let old: Vec<u64> = self.dir.numbers()?.into_iter().filter(|number| *number <= through).collect();
        if old.is_empty() {
            return Ok(());
        }
        let remove = Entry::new(entry::REMOVE).with("through", through);
        let (line, head) = self.key.seal(&state.head, Timestamp::now(), &remove);
        self.write_line(state, &line, head)?;
        state.file.sync_data().map_err(|source| self.dir.error_at(state.number, source))?;
        // In order, so that those that are left have no gap.
        old.into_iter().try_for_each(|number| self.dir.remove(number))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // Of a daemon that stops in order. Its last head is stored before.
        let _ = self.sync();
    }
}
