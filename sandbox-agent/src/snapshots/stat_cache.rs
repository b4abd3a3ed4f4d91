//! Metadata of the files at the last snapshot.
//!
//! A file whose inode, size and times are the same as then has the same content, so it is not read again. The cache is
//! a file with one record for each entry, in the order of the walk. The next walk reads it alongside and writes a new
//! one, so neither takes memory. It is stored in the staging directory, where commands of the sandbox could change it:
//! that affects only the sandbox's own snapshots, and the daemon rejects chunks that the sandbox has never sent.
//!
//! Times have the resolution of the kernel's clock tick. A file that was changed in or after the tick in which the last
//! snapshot began may have been changed again without getting another time. Such a file is *racily clean* and read
//! again. The walk begins with `syncfs`, because a page that is dirty already gets no new time for writes through
//! a mapping.

use std::io::{self, BufReader, BufWriter, Read, Write};

use bytes::Bytes;
use prost::Message;
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};
use snapshot_format::tree::MAX_ENTRY_BYTES;
use snapshot_format::{Content, Entry, Kind};

/// First bytes of a cache. Changed with its format.
const MAGIC: &[u8; 8] = b"statca1\n";

/// Buffer for reading, and for writing.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum size of a record in bytes.
const MAX_RECORD_BYTES: usize = MAX_ENTRY_BYTES + 64;

/// Metadata of one file, or the beginning or end of a directory.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Record {
    /// The entry as it is in the tree. For the end of a directory, only its content.
    #[prost(message, optional, tag = "1")]
    entry: Option<Entry>,
    #[prost(uint64, tag = "2")]
    inode: u64,
    /// When the inode was changed last: seconds, and nanoseconds.
    #[prost(int64, tag = "3")]
    changed_s: i64,
    #[prost(int64, tag = "4")]
    changed_ns: i64,
    #[prost(bool, tag = "5")]
    is_end: bool,
}

impl Record {
    fn name(&self) -> &[u8] {
        self.entry.as_ref().map_or(&[], |entry| &entry.name)
    }

    pub(super) fn begins_directory(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.kind() == Kind::Directory) && !self.is_end
    }
}

/// A time by the kernel's clock for files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileTime {
    seconds: i64,
    nanoseconds: i64,
}

impl FileTime {
    /// The tick in which this is called.
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
    }

    /// When a file's inode was changed last.
    #[expect(clippy::useless_conversion, reason = "the types differ between architectures")]
    pub(super) fn of_change(stat: &Stat) -> Self {
        Self { seconds: stat.st_ctime.into(), nanoseconds: stat.st_ctime_nsec.try_into().unwrap_or(0) }
    }
}

/// The cache of an earlier snapshot.
#[derive(Debug)]
pub(super) struct CacheReader<R> {
    source: BufReader<R>,
    /// When the snapshot began.
    began: FileTime,
    next: Option<Record>,
    buffer: Vec<u8>,
}

impl<R: Read> CacheReader<R> {
    /// Opens a cache. A cache that cannot be read is not used.
    pub(super) fn open(source: R) -> io::Result<Self> {
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let mut head = [0; 24];
        source.read_exact(&mut head)?;
        let number = |at: usize| i64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        if &head[..8] != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let began = FileTime { seconds: number(8), nanoseconds: number(16) };
        let mut reader = Self { source, began, next: None, buffer: Vec::new() };
        reader.advance();
        Ok(reader)
    }

    /// Reads the next record. A cache that is damaged or incomplete ends there.
    fn advance(&mut self) -> Option<Record> {
        let next = self.read().ok();
        std::mem::replace(&mut self.next, next)
    }

    fn read(&mut self) -> io::Result<Record> {
        let mut length = [0; 4];
        self.source.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_RECORD_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.buffer.resize(length, 0);
        self.source.read_exact(&mut self.buffer)?;
        Ok(Record::decode(Bytes::copy_from_slice(&self.buffer))?)
    }

    /// Returns the record of `name` in the current directory. Names must be requested in order. If it begins
    /// a directory, the caller walks through that or calls [`CacheReader::leave`].
    pub(super) fn find(&mut self, name: &[u8]) -> Option<Record> {
        loop {
            let next = self.next.as_ref()?;
            if next.is_end || next.name() > name {
                return None;
            }
            let record = self.advance()?;
            if record.name() == name {
                return Some(record);
            }
            if record.begins_directory() {
                self.leave();
            }
        }
    }

    /// Skips the rest of the current directory. Returns the content it had.
    pub(super) fn leave(&mut self) -> Option<Content> {
        let mut depth = 0_usize;
        loop {
            let record = self.advance()?;
            match record.is_end {
                true if depth == 0 => return record.entry?.content,
                true => depth -= 1,
                false if record.begins_directory() => depth += 1,
                false => {}
            }
        }
    }

    /// Returns the entry of `record` if `stat` shows that the file is the same.
    pub(super) fn unchanged(&self, record: Record, stat: &Stat) -> Option<Entry> {
        let changed = FileTime { seconds: record.changed_s, nanoseconds: record.changed_ns };
        let is_same =
            record.inode == stat.st_ino && changed == FileTime::of_change(stat) && changed < self.began;
        let entry = record.entry.filter(|_| is_same)?;
        let content = entry.content.as_ref()?;
        (u64::try_from(stat.st_size) == Ok(content.size)).then_some(entry)
    }
}

/// The cache of the snapshot that is being made. If it cannot be written, for example on a full disk, there is none:
/// the next snapshot reads every file.
#[derive(Debug)]
pub(super) struct CacheWriter<W: Write>(Option<BufWriter<W>>);

impl<W: Write> CacheWriter<W> {
    /// Creates a cache of a snapshot that began at `began`.
    pub(super) fn new(target: Option<W>, began: FileTime) -> Self {
        let target = target.map(|target| BufWriter::with_capacity(BUFFER_BYTES, target));
        let mut writer = Self(target);
        writer.write(&[MAGIC, &began.seconds.to_le_bytes()[..], &began.nanoseconds.to_le_bytes()].concat());
        writer
    }

    /// Adds a file that had these times when its content was read.
    pub(super) fn file(&mut self, entry: &Entry, stat: &Stat) {
        let changed = FileTime::of_change(stat);
        self.record(&Record {
            entry: Some(entry.clone()),
            inode: stat.st_ino,
            changed_s: changed.seconds,
            changed_ns: changed.nanoseconds,
            is_end: false,
        });
    }

    /// Adds the beginning of a directory.
    pub(super) fn enter(&mut self, name: &[u8]) {
        let kind = Kind::Directory.into();
        let entry = Entry { name: Bytes::copy_from_slice(name), kind, ..Entry::default() };
        self.record(&Record { entry: Some(entry), ..Record::default() });
    }

    /// Adds the end of a directory.
    pub(super) fn leave(&mut self, content: &Content) {
        let entry = Entry { content: Some(content.clone()), ..Entry::default() };
        self.record(&Record { entry: Some(entry), is_end: true, ..Record::default() });
    }

    fn record(&mut self, record: &Record) {
        let length = u32::try_from(record.encoded_len()).unwrap_or(u32::MAX);
        self.write(&length.to_le_bytes());
        self.write(&record.encode_to_vec());
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.0.as_mut().is_some_and(|target| target.write_all(bytes).is_err()) {
            self.0 = None;
        }
    }

    /// Writes what is buffered. Returns whether the cache is complete.
    pub(super) fn finish(self) -> bool {
        self.0.is_some_and(|mut target| target.flush().is_ok())
    }
}
