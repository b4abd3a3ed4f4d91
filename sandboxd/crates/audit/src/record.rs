//! The writer of the record.
//!
//! A line is written with one system call, in the caller's thread: it goes into the page cache, which takes microseconds.
//! [`Record::sync`] makes lines durable. It blocks, and so does [`Record::remove_old`]; nothing else does.
//!
//! If a line cannot be written, [`Record::append`] fails, and what was written of it is removed. Lines that cannot fail
//! anything any more wait in memory, within a bound, and are written before the next line.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sandboxd_model::limits;

use crate::recover::{Continuation, recover};
use crate::reserve::Reserve;
use crate::segment::Segment;
use crate::{Directory, Entry, Error, Head, Key, entry};

/// Sizes of a record.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Size after which the next file begins, in bytes.
    pub max_file_bytes: u64,
    /// Number of files that are kept. 0 is all.
    pub kept_files: u64,
    /// Space on the disk that is kept for [`Record::append_freeing`], in bytes. 0 keeps none.
    pub reserve_bytes: u64,
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
    /// The file that is written.
    current: Segment,
    /// Files before it that have not been synced since they were full.
    full: VecDeque<Segment>,
    /// The name of a file is not durable yet.
    has_new_name: bool,
    /// The last sync has failed, so it is not known which lines are on the disk.
    in_doubt: bool,
    head: Head,
    /// Lines that could not be written yet.
    waiting: VecDeque<(Timestamp, Entry)>,
    /// Lines that did not fit there.
    omitted: u64,
    reserve: Reserve,
    /// A line says that the files up to this one are removed.
    removed_through: u64,
}

impl Record {
    /// Opens or creates the record in a directory and continues it. `stored` is the newest head that was stored elsewhere.
    pub fn open(path: &Path, key: Key, options: Options, stored: Option<Head>) -> Result<Self, Error> {
        let dir = Directory::create(path)?;
        let Continuation { file, number, size, head, notes } = recover(&dir, &key, stored)?;
        let state = State {
            current: Segment::new(file, number, size, head.mac),
            full: VecDeque::new(),
            has_new_name: true,
            in_doubt: false,
            head,
            waiting: VecDeque::new(),
            omitted: 0,
            reserve: Reserve::open(&dir, options.reserve_bytes)?,
            removed_through: 0,
        };
        let record = Self { dir, key, options, state: Mutex::new(state), synced: Mutex::new(Head::NONE) };
        for note in notes {
            // On a full disk, they wait for the first line that can be written.
            let _ = record.note(note);
        }
        Ok(record)
    }

    /// Writes a line and returns its sequence number. If it fails, nothing of the line is in the record.
    pub fn append(&self, entry: &Entry) -> Result<u64, Error> {
        self.append_to(&mut self.state(), entry)
    }

    /// As [`Self::append`], for an act that frees something. On a full disk, the line takes the place of the reserve.
    pub fn append_freeing(&self, entry: &Entry) -> Result<u64, Error> {
        let mut state = self.state();
        match self.append_to(&mut state, entry) {
            Err(error) if error.is_full() => {
                let number = state.current.number;
                state.reserve.release().map_err(|source| self.dir.error_at(number, source))?;
                // The lines that wait would use it up. They are written when there is space again.
                self.write(&mut state, Timestamp::now(), entry)?;
                Ok(state.head.seq)
            }
            appended => appended,
        }
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

    /// Writes the lines that wait.
    pub fn flush(&self) -> Result<(), Error> {
        self.write_waiting(&mut self.state())
    }

    /// Whether everything is written, and the next line can be.
    pub fn is_well(&self) -> bool {
        let state = self.state();
        state.waiting.is_empty() && state.omitted == 0 && state.reserve.is_whole() && !state.in_doubt
    }

    /// Makes all lines durable that are written, and returns the last one. Blocks while the disk works.
    pub fn sync(&self) -> Result<Head, Error> {
        let target = self.state().head.seq;
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if synced.seq >= target && target > 0 {
            return Ok(*synced);
        }
        self.replace_doubtful()?;
        let (segments, head, has_new_name) = {
            let state = self.state();
            let segments: Vec<Segment> = state.full.iter().chain([&state.current]).cloned().collect();
            (segments, state.head, state.has_new_name)
        };
        let done = self.sync_all(&segments, has_new_name);
        let mut state = self.state();
        state.in_doubt = done.is_err();
        done?;
        state.note_synced(&segments);
        *synced = head;
        Ok(head)
    }

    /// In order, because a durable line needs those before it.
    fn sync_all(&self, segments: &[Segment], has_new_name: bool) -> Result<(), Error> {
        if has_new_name {
            self.dir.sync()?;
        }
        segments.iter().try_for_each(|segment| {
            segment.file.sync_data().map_err(|source| self.dir.error_at(segment.number, source))
        })
    }

    /// Replaces the files that may have lines which are not on the disk. Nothing is written to them meanwhile.
    fn replace_doubtful(&self) -> Result<(), Error> {
        let mut segments: Vec<Segment> = {
            let state = self.state();
            if !state.in_doubt {
                return Ok(());
            }
            state.full.iter().chain([&state.current]).cloned().collect()
        };
        let done = segments.iter_mut().try_for_each(|segment| segment.replace(&self.dir, &self.key));
        let mut state = self.state();
        // Also those before one that failed.
        state.has_new_name = true;
        let State { full, current, .. } = &mut *state;
        for (segment, replaced) in full.iter_mut().chain([current]).zip(segments) {
            segment.file = replaced.file;
        }
        done
    }

    /// Removes files that are not kept any more. The line that says which ones is durable before any of them is removed.
    /// Blocks while the disk works.
    pub fn remove_old(&self) -> Result<(), Error> {
        let (number, removed_through) = {
            let state = self.state();
            (state.current.number, state.removed_through)
        };
        let through = match self.options.kept_files {
            0 => return Ok(()),
            kept => number.saturating_sub(kept),
        };
        let old: Vec<u64> = self.dir.numbers()?.into_iter().filter(|number| *number <= through).collect();
        if old.is_empty() {
            return Ok(());
        }
        if through > removed_through {
            self.append_freeing(&Entry::new(entry::REMOVE).with("through", through))?;
            self.sync()?;
            self.state().removed_through = through;
        }
        // In order, so that those that are left have no gap.
        old.into_iter().try_for_each(|number| self.dir.remove(number))
    }

    fn append_to(&self, state: &mut State, entry: &Entry) -> Result<u64, Error> {
        self.write_waiting(state)?;
        self.restore_reserve(state)?;
        self.write(state, Timestamp::now(), entry)?;
        Ok(state.head.seq)
    }

    fn write_waiting(&self, state: &mut State) -> Result<(), Error> {
        if state.waiting.is_empty() && state.omitted == 0 {
            return Ok(());
        }
        self.restore_reserve(state)?;
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

    fn restore_reserve(&self, state: &mut State) -> Result<(), Error> {
        state.reserve.restore().map_err(|source| self.dir.error_at(state.current.number, source))
    }

    fn write(&self, state: &mut State, at: Timestamp, entry: &Entry) -> Result<(), Error> {
        if state.in_doubt {
            return Err(Error::InDoubt { path: self.dir.path_of(state.current.number) });
        }
        if state.current.size == 0 {
            self.write_first_line(state)?;
        }
        let (mut line, mut head) = self.key.seal(&state.head, at, entry);
        if state.current.size + line.len() as u64 > self.options.max_file_bytes {
            self.begin_file(state)?;
            (line, head) = self.key.seal(&state.head, at, entry);
        }
        self.write_line(state, &line, head)
    }

    /// Writes what each file begins with.
    fn write_first_line(&self, state: &mut State) -> Result<(), Error> {
        let first = Entry::new(entry::FILE).with("file", state.current.number);
        let first = first.with("previous", state.head.mac.to_string());
        let (line, head) = self.key.seal(&state.head, Timestamp::now(), &first);
        self.write_line(state, &line, head)
    }

    fn write_line(&self, state: &mut State, line: &[u8], head: Head) -> Result<(), Error> {
        let number = state.current.number;
        state.current.write(line, head.mac).map_err(|source| self.dir.error_at(number, source))?;
        state.head = head;
        Ok(())
    }

    /// Begins the next file. The next sync makes this one durable.
    fn begin_file(&self, state: &mut State) -> Result<(), Error> {
        let number = state.current.number;
        if state.full.len() >= limits::MAX_UNSYNCED_AUDIT_FILES {
            let slow = io::Error::new(io::ErrorKind::TimedOut, "the disk has not taken the files before it");
            return Err(self.dir.error_at(number, slow));
        }
        let next = Segment::new(self.dir.begin(number + 1)?, number + 1, 0, state.head.mac);
        state.has_new_name = true;
        state.full.push_back(std::mem::replace(&mut state.current, next));
        self.write_first_line(state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes what is durable. Meanwhile, lines may have been added, and a file may have become full.
    fn note_synced(&mut self, synced: &[Segment]) {
        let Some((newest, older)) = synced.split_last() else { return };
        self.full.retain(|segment| older.iter().all(|synced| synced.number != segment.number));
        // A name that was added meanwhile is not.
        self.has_new_name = self.current.number != newest.number;
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // Of a daemon that stops in order. Its last head is stored before.
        let _ = self.flush();
        let _ = self.sync();
    }
}
