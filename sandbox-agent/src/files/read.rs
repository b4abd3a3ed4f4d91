//! Reads files in chunks, one at a time.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, read_file_request};
use bytes::Bytes;
use cap_std::fs::File;

use super::info;
use super::path::FilePath;
use super::workspace::Workspace;
use crate::limits::MESSAGE_BYTES;

/// An open file, and the part of it that is still to be sent.
#[derive(Debug)]
pub(crate) struct FileReader {
    file: File,
    path: FilePath,
    rest: u64,
    /// Sent with the first chunk.
    header: Option<v1::FileHeader>,
}

impl Workspace {
    /// Opens a regular file of at most `max_bytes` (0 means no limit) to read the bytes of `range`.
    pub(crate) fn read(
        &self,
        path: FilePath,
        max_bytes: u64,
        range: Option<read_file_request::Range>,
    ) -> Result<FileReader, Kind> {
        let mut file = self.open_file(path.as_path()).map_err(|error| path.lookup_fault(&error))?;
        let meta = file.metadata().map_err(|error| path.fault(&error))?;
        if !meta.is_file() {
            return Err(path.not_a_file());
        }
        let size = meta.len();
        if max_bytes > 0 && size > max_bytes {
            let path = path.details(0).path;
            return Err(Kind::TooLarge(v1::TooLarge { path, bytes: size, max_bytes }));
        }
        let span = span_of(range, size).ok_or(Kind::RangeEmpty(v1::RangeEmpty { size_bytes: size }))?;
        if span.start > 0 {
            file.seek(SeekFrom::Start(span.start)).map_err(|error| path.fault(&error))?;
        }
        let rest = span.end - span.start;
        let info = Some(info::of_file(&path.relative, &meta));
        let header = Some(v1::FileHeader { info, offset: span.start, length: rest });
        Ok(FileReader { file, path, rest, header })
    }
}

/// Returns the bytes that `range` selects in a file of `size` (RFC 9110 section 14.1.2), or `None` if it selects
/// none.
fn span_of(range: Option<read_file_request::Range>, size: u64) -> Option<Range<u64>> {
    match range {
        None => Some(0..size),
        Some(read_file_request::Range::Last(last)) => {
            (last > 0 && size > 0).then(|| size.saturating_sub(last)..size)
        }
        Some(read_file_request::Range::Span(v1::ByteSpan { from, to })) => {
            let end = to.map_or(size, |to| to.saturating_add(1)).min(size);
            (from < end).then_some(from..end)
        }
    }
}

impl FileReader {
    /// Whether the last chunk has been read.
    pub(crate) fn is_over(&self) -> bool {
        self.rest == 0 && self.header.is_none()
    }

    /// Returns the next chunk. There is always a first one. Data added to the file meanwhile is not read. A file that
    /// became shorter is an error, because its length has been sent.
    pub(crate) fn next(&mut self) -> Result<Option<v1::FileChunk>, Kind> {
        let header = self.header.take();
        if self.rest == 0 && header.is_none() {
            return Ok(None);
        }
        let wanted = self.rest.min(MESSAGE_BYTES as u64);
        let mut buffer = Vec::with_capacity(wanted as usize);
        let read = (&self.file).take(wanted).read_to_end(&mut buffer);
        let read = read.map_err(|error| self.path.fault(&error))? as u64;
        if read < wanted {
            return Err(Kind::FileFailed(self.path.details(rustix::io::Errno::STALE.raw_os_error())));
        }
        self.rest -= read;
        Ok(Some(v1::FileChunk { header, data: Bytes::from(buffer) }))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::tests::{Fixture, fixture};
    use super::*;

    fn read(fixture: &Fixture, path: &str, max_bytes: u64) -> Result<Vec<u8>, Kind> {
        let mut reading = fixture.workspace.read(fixture.path(path), max_bytes, None)?;
        let mut content = Vec::new();
        while let Some(chunk) = reading.next()? {
            content.extend_from_slice(&chunk.data);
        }
        Ok(content)
    }

    #[test]
    fn a_link_out_of_the_workspace_is_rejected() {
        let fixture = fixture();
        let outside = tempfile::NamedTempFile::new().unwrap();
        symlink(outside.path(), fixture.dir.path().join("file")).unwrap();
        symlink("/etc", fixture.dir.path().join("etc")).unwrap();
        symlink("/proc/self/root", fixture.dir.path().join("root")).unwrap();
        for path in ["file", "etc/passwd", "../x", "etc/../etc/passwd", "root/etc/passwd"] {
            let read = read(&fixture, path, 0);
            assert!(matches!(read, Err(Kind::OutsideWorkspace(_))), "{path}: {read:?}");
        }
    }

    #[test]
    fn an_absolute_link_within_the_workspace_is_followed() {
        let fixture = fixture();
        std::fs::write(fixture.dir.path().join("file"), b"1").unwrap();
        symlink(fixture.dir.path().join("file"), fixture.dir.path().join("link")).unwrap();
        assert_eq!(read(&fixture, "link", 0).unwrap(), b"1");
    }

    #[test]
    fn only_regular_files_within_the_size_limit_are_read() {
        let fixture = fixture();
        let dir = fixture.dir.path();
        std::fs::create_dir(dir.join("dir")).unwrap();
        std::fs::write(dir.join("big"), b"123456").unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, dir.join("fifo"), fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(read(&fixture, "dir", 9), Err(Kind::NotAFile(_))));
        assert!(matches!(read(&fixture, "fifo", 9), Err(Kind::NotAFile(_))));
        assert!(matches!(read(&fixture, "big", 5), Err(Kind::TooLarge(_))));
        for absent in ["absent", "big/below", "big/far/below"] {
            assert!(matches!(read(&fixture, absent, 9), Err(Kind::FileUnknown(_))), "{absent}");
        }
        assert_eq!(read(&fixture, "big", 6).unwrap(), b"123456");
    }

    #[test]
    fn a_range_is_interpreted_as_in_http() {
        let span = |from, to| Some(read_file_request::Range::Span(v1::ByteSpan { from, to }));
        let last = |last| Some(read_file_request::Range::Last(last));
        assert_eq!(span_of(None, 0), Some(0..0));
        assert_eq!(span_of(span(2, None), 5), Some(2..5));
        assert_eq!(span_of(span(0, Some(0)), 5), Some(0..1));
        assert_eq!(span_of(span(4, Some(u64::MAX)), 5), Some(4..5));
        assert_eq!(span_of(span(5, None), 5), None);
        assert_eq!(span_of(last(9), 5), Some(0..5));
        assert_eq!(span_of(last(2), 5), Some(3..5));
        assert_eq!(span_of(last(0), 5), None);
    }

    #[test]
    fn a_growing_file_is_cut_and_a_shrinking_file_is_an_error() {
        let fixture = fixture();
        let path = fixture.dir.path().join("file");
        std::fs::write(&path, vec![1; 2 * MESSAGE_BYTES]).unwrap();
        let open = || fixture.workspace.read(fixture.path("file"), 0, None).unwrap();
        let (mut grown, mut shrunk) = (open(), open());
        assert!(shrunk.next().unwrap().is_some());
        std::fs::write(&path, vec![1; 3 * MESSAGE_BYTES]).unwrap();
        let mut bytes = 0;
        while let Some(chunk) = grown.next().unwrap() {
            bytes += chunk.data.len();
        }
        assert_eq!(bytes, 2 * MESSAGE_BYTES);
        std::fs::write(&path, b"1").unwrap();
        assert!(matches!(shrunk.next(), Err(Kind::FileFailed(_))));
    }
}
