//! Packs a directory or a file into a tar archive, one piece at a time.
//!
//! Files are packed as they are when they are read. The size of a file is written before its content. So a file that
//! grows is cut, and one that shrinks is filled up with zeros, as in tar(1). Entries that were removed meanwhile are
//! skipped, and so are fifos, sockets and devices. Nothing else is skipped silently. If something cannot be read, the
//! archive ends without an end mark, because a reader could not see that anything is missing.

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, Compression};
use bytes::Bytes;
use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt, PermissionsExt};
use flate2::write::GzEncoder;
use rustix::fs::OFlags;
use tar::{EntryType, Header};

use super::path::FilePath;
use super::walk::{Entry, Walk};
use super::workspace::Workspace;
use crate::limits::{MAX_WALK_BYTES, MAX_WALK_DEPTH, MAX_WALK_NAMES, MESSAGE_BYTES};

/// Block size of an archive (tar(5)).
const BLOCK_BYTES: u64 = 512;

/// Amount of work after which a piece is sent, and what a header counts as.
const STEP_BYTES: usize = 8 * 1024 * 1024;
const HEADER_COST: usize = 4 * 1024;

/// Speed before size, because an archive is usually unpacked as soon as it arrives.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;

/// A running pack.
pub(crate) struct Packer {
    /// `None` for a single file.
    walk: Option<Walk>,
    root: PathBuf,
    file: Option<FileCopy>,
    archive: Option<tar::Builder<Sink>>,
}

/// A file whose header is written and whose content follows.
struct FileCopy {
    file: File,
    path: FilePath,
    rest: u64,
    padding: u64,
}

impl Workspace {
    /// Opens `path` for packing. A directory's entries are named relative to it. A file has its own name.
    pub(crate) fn pack(&self, path: &FilePath, compression: Compression) -> Result<Packer, Kind> {
        let fail = |error: io::Error| path.lookup_fault(&error);
        let archive = Some(tar::Builder::new(Sink::new(compression).map_err(fail)?));
        match self.open_dir(path.as_path()) {
            Ok(dir) => {
                let walk = Walk::new(dir, path.relative.clone(), MAX_WALK_NAMES, None).map_err(fail)?;
                Ok(Packer { walk: Some(walk), root: path.relative.clone(), file: None, archive })
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let (parent, name) = path.split()?;
                let dir = self.open_dir(parent).map_err(fail)?;
                let mut packing = Packer { walk: None, root: PathBuf::new(), file: None, archive };
                packing.add(&dir, Path::new(name), Path::new(name), path).map_err(fail)?;
                if packing.file.is_some() { Ok(packing) } else { Err(path.not_a_file()) }
            }
            Err(error) => Err(fail(error)),
        }
    }
}

impl Packer {
    /// Returns the next piece of the archive, or `None` after its end.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Kind> {
        let mut bytes_read = 0;
        self.fill(&mut bytes_read)?;
        if self.walk.as_ref().is_some_and(Walk::is_cut) {
            let what = format!(
                "levels of directories, {MAX_WALK_NAMES} names in one, or {MAX_WALK_BYTES} bytes of names on the way down"
            );
            return Err(Kind::TooMany(v1::TooMany { what, limit: MAX_WALK_DEPTH as u64 }));
        }
        let Some(archive) = &mut self.archive else {
            return Ok(None);
        };
        // Much input may compress to little output. The thread must serve other calls too.
        if archive.get_ref().written().len() >= MESSAGE_BYTES || bytes_read >= STEP_BYTES {
            return Ok(Some(archive.get_mut().take()));
        }
        let last = self.archive.take().map(|archive| archive.into_inner()?.finish()).transpose();
        let last = last.map_err(|error| FilePath::found(self.root.clone()).fault(&error))?;
        Ok(last.map(Bytes::from))
    }

    /// Continues until there is enough for a message, or everything is packed.
    fn fill(&mut self, bytes_read: &mut usize) -> Result<(), Kind> {
        while *bytes_read < STEP_BYTES
            && self.archive.as_ref().is_some_and(|archive| archive.get_ref().written().len() < MESSAGE_BYTES)
        {
            *bytes_read += MESSAGE_BYTES
                .min(self.file.as_ref().map_or(HEADER_COST, |file| file.rest as usize + HEADER_COST));
            if self.file.is_some() {
                self.add_content()?;
            } else if !self.add_next()? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn add_next(&mut self) -> Result<bool, Kind> {
        let Some(entry) = self.walk.as_mut().and_then(Walk::next) else {
            return Ok(false);
        };
        let inside = entry.path.strip_prefix(&self.root).unwrap_or(&entry.path).to_owned();
        let path = FilePath::found(entry.path.clone());
        match self.add_entry(&entry, &inside, &path) {
            // An entry that was removed meanwhile is not part of the archive.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            added => added.map(|()| true).map_err(|error| path.fault(&error)),
        }
    }

    fn add_entry(&mut self, entry: &Entry, inside: &Path, path: &FilePath) -> io::Result<()> {
        let is_dir = self.add(&entry.dir, Path::new(&entry.name), inside, path)?;
        let Some(walk) = self.walk.as_mut().filter(|_| is_dir) else { return Ok(()) };
        match walk.try_enter(entry) {
            // It is no longer a directory. It counts as an empty one.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
            entered => entered,
        }
    }

    /// Adds an entry without its contents. Returns whether it may have contents.
    fn add(&mut self, dir: &Dir, name: &Path, inside: &Path, path: &FilePath) -> io::Result<bool> {
        let meta = dir.symlink_metadata(name)?;
        if meta.is_dir() {
            self.add_header(&meta, EntryType::Directory, inside, 0)?;
            return Ok(true);
        }
        if meta.is_symlink() {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            let target = Path::new(std::ffi::OsStr::from_bytes(target.to_bytes())).to_owned();
            let Some(archive) = &mut self.archive else { return Ok(false) };
            archive.append_link(&mut header(&meta, EntryType::Symlink, 0), inside, target)?;
        } else if meta.is_file() {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
            let file = dir.open_with(name, &options)?;
            let meta = file.metadata()?;
            if !meta.is_file() {
                return Ok(false);
            }
            self.add_header(&meta, EntryType::Regular, inside, meta.len())?;
            let padding = meta.len().next_multiple_of(BLOCK_BYTES) - meta.len();
            self.file = Some(FileCopy { file, path: path.clone(), rest: meta.len(), padding });
        }
        Ok(false)
    }

    fn add_header(&mut self, meta: &Metadata, kind: EntryType, inside: &Path, size: u64) -> io::Result<()> {
        let Some(archive) = &mut self.archive else { return Ok(()) };
        // The content follows separately, in pieces.
        archive.append_data(&mut header(meta, kind, size), inside, io::empty())
    }

    fn add_content(&mut self) -> Result<(), Kind> {
        let (Some(filling), Some(archive)) = (&mut self.file, &mut self.archive) else { return Ok(()) };
        let is_over = filling.copy_piece(archive.get_mut()).map_err(|error| filling.path.fault(&error))?;
        if is_over {
            self.file = None;
        }
        Ok(())
    }
}

impl FileCopy {
    /// Copies the next piece. Returns whether it was the last.
    fn copy_piece(&mut self, archive: &mut Sink) -> io::Result<bool> {
        let wanted = self.rest.min(MESSAGE_BYTES as u64);
        let mut piece = Vec::with_capacity(wanted as usize);
        (&self.file).take(wanted).read_to_end(&mut piece)?;
        piece.resize(wanted as usize, 0);
        self.rest -= wanted;
        archive.write_all(&piece)?;
        if self.rest == 0 {
            archive.write_all(&[0; BLOCK_BYTES as usize][..self.padding as usize])?;
        }
        Ok(self.rest == 0)
    }
}

fn header(meta: &Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(meta.permissions().mode() & super::batch::MODE_MASK);
    header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
    // The owner has no meaning outside the sandbox.
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header
}

/// The output of the archive: memory that is emptied piece by piece.
enum Sink {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Sink {
    fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(Vec::new()),
            Compression::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL))),
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    fn written(&self) -> &Vec<u8> {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Gzip(encoder) => encoder.get_ref(),
            Self::Zstd(encoder) => encoder.get_ref(),
        }
    }

    fn take(&mut self) -> Bytes {
        let bytes = match self {
            Self::Plain(bytes) => bytes,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        };
        std::mem::take(bytes).into()
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(bytes) => Ok(bytes),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(written) => written.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::tests::{Fixture, as_unprivileged, fixture};
    use super::*;

    fn tree(files: &[(&str, usize)]) -> Fixture {
        let fixture = fixture();
        for (path, bytes) in files {
            let path = fixture.dir.path().join("tree").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![7; *bytes]).unwrap();
        }
        fixture
    }

    fn shut(fixture: &Fixture, path: &str) {
        let path = fixture.dir.path().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }

    /// Returns the output, and how it ended.
    fn packed(packing: &mut Packer) -> (Vec<u8>, Result<(), Kind>) {
        let mut bytes = Vec::new();
        loop {
            match packing.next() {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => return (bytes, Ok(())),
                Err(kind) => return (bytes, Err(kind)),
            }
        }
    }

    fn pack(fixture: &Fixture, path: &str) -> Result<Packer, Kind> {
        fixture.workspace.pack(&fixture.path(path), Compression::None)
    }

    fn is_about(refused: &Kind, path: &str) -> bool {
        let errno = rustix::io::Errno::ACCESS.raw_os_error();
        matches!(refused, Kind::FileFailed(facts) if facts.path == path && facts.errno == errno)
    }

    #[test]
    fn an_unreadable_entry_fails_the_archive() {
        for shut_away in ["tree/sub/secret", "tree/sub", "tree"] {
            let fixture = tree(&[("a", 1), ("sub/secret", 1), ("z", 1)]);
            shut(&fixture, shut_away);
            let refused = as_unprivileged(|| pack(&fixture, "tree").and_then(|mut packing| packing.next()));
            assert!(
                refused.as_ref().is_err_and(|kind| is_about(kind, shut_away)),
                "{shut_away}: {refused:?}"
            );
        }
        let fixture = tree(&[("alone", 1)]);
        shut(&fixture, "tree/alone");
        let refused = as_unprivileged(|| pack(&fixture, "tree/alone").map(drop));
        assert!(refused.as_ref().is_err_and(|kind| is_about(kind, "tree/alone")), "{refused:?}");
    }

    #[test]
    fn an_unreadable_entry_never_ends_an_archive_normally() {
        let fixture = tree(&[("large", 3 * MESSAGE_BYTES), ("secret", 1)]);
        shut(&fixture, "tree/secret");
        let (bytes, ended) = as_unprivileged(|| packed(&mut pack(&fixture, "tree").unwrap()));
        assert!(bytes.len() > MESSAGE_BYTES);
        assert!(ended.as_ref().is_err_and(|kind| is_about(kind, "tree/secret")), "{ended:?}");
    }

    #[test]
    fn a_tree_that_is_too_deep_fails_the_archive() {
        let fixture = fixture();
        fs::create_dir_all(fixture.dir.path().join("d/".repeat(MAX_WALK_DEPTH + 2))).unwrap();
        let refused = pack(&fixture, "d").and_then(|mut packing| packing.next());
        assert!(matches!(&refused, Err(Kind::TooMany(_))), "{refused:?}");
    }

    #[test]
    fn an_entry_removed_meanwhile_is_skipped() {
        let fixture = tree(&[("large", 3 * MESSAGE_BYTES), ("sub/gone", 1), ("vanished", 1), ("z", 1)]);
        let mut packing = pack(&fixture, "tree").unwrap();
        let mut bytes = packing.next().unwrap().unwrap().to_vec();
        fs::remove_dir_all(fixture.dir.path().join("tree/sub")).unwrap();
        fs::remove_file(fixture.dir.path().join("tree/vanished")).unwrap();
        let (rest, ended) = packed(&mut packing);
        bytes.extend(rest);
        assert_eq!(ended, Ok(()));
        let mut archive = tar::Archive::new(&bytes[..]);
        let names = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned());
        assert_eq!(names.collect::<Vec<_>>(), ["large", "z"].map(PathBuf::from));
    }
}
