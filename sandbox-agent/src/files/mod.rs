//! Finds and reads the workspace's files, as the sandbox's user; [`batch`] writes them.
//!
//! Every path is resolved beneath the workspace by the kernel (openat2, RESOLVE_BENEATH) through cap-std;
//! nothing is decided on the text of a path, so a link swapped in at any moment cannot lead out. The kernel
//! refuses every absolute link there, also one to the workspace itself; such a path is looked up once more
//! from the root, and what it is found to stand for goes the same way as any other.
//!
//! Everything here blocks and runs on the runtime's blocking threads. What is opened is looked at before it
//! is read: a fifo would hang, a device would never end.

pub(crate) mod batch;

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::sync::mpsc;

use crate::limits::{MAX_PATH_BYTES, MESSAGE_BYTES};

/// The workspace as a directory that no path leads out of.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    pub(crate) dir: Dir,
}

impl Workspace {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.to_owned(), dir: Dir::open_ambient_dir(root, ambient_authority())? })
    }

    /// Bytes taken of the file system the workspace is on: one call of the kernel, whatever is in it.
    pub(crate) fn disk_used_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.dir)?;
        Ok(stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize)
    }

    /// Opens a regular file of at most `max_bytes` for reading.
    pub(crate) fn open_file(&self, path: &str, max_bytes: u64) -> Result<(File, u64), Kind> {
        let relative = self.relative(path)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file =
            self.dir.open_with(&relative, &options).or_else(|error| match self.real(&relative, &error) {
                Some(real) => self.dir.open_with(&real, &options),
                None => Err(error),
            });
        let file = file.map_err(|error| fault(path, &error))?;
        let meta = file.metadata().map_err(|error| fault(path, &error))?;
        if !meta.is_file() {
            return Err(Kind::NotAFile(v1::PathFault { path: path.into(), errno: 0 }));
        }
        if meta.len() > max_bytes {
            return Err(Kind::TooLarge(v1::TooLarge { path: path.into(), bytes: meta.len(), max_bytes }));
        }
        Ok((file, meta.len()))
    }

    /// What a path that was found to lead out stands for in the workspace, if absolute links alone made it
    /// seem so. As much of it as exists is looked up; it may be another path by now, so it proves nothing.
    pub(crate) fn real(&self, relative: &Path, error: &io::Error) -> Option<PathBuf> {
        if !leads_out(error) || relative.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let (found, rest) = relative.ancestors().find_map(|known| {
            let found = std::fs::canonicalize(self.root.join(known)).ok()?;
            Some((found, relative.strip_prefix(known).ok()?))
        })?;
        let inside = found.strip_prefix(&self.root).ok()?;
        // By components, because joining an empty rest would end the path in a slash.
        Some(Path::new(".").components().chain(inside.components()).chain(rest.components()).collect())
    }

    /// The path as it is seen from the workspace; only the workspace's own name is taken off the front.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, Kind> {
        if path.is_empty() || path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(Kind::FieldInvalid(v1::FieldInvalid {
                field: "path".into(),
                problem: format!("is not 1 to {MAX_PATH_BYTES} bytes without NUL"),
            }));
        }
        let path_of = Path::new(path);
        if path_of.is_relative() {
            return Ok(path_of.to_owned());
        }
        match path_of.strip_prefix(&self.root) {
            Ok(rest) if rest.as_os_str().is_empty() => Ok(PathBuf::from(".")),
            Ok(rest) => Ok(rest.to_owned()),
            Err(_) => Err(Kind::OutsideWorkspace(v1::PathFault { path: path.into(), errno: 0 })),
        }
    }
}

/// Passes a file on in chunks until it ends or the receiver is gone. A file that grows meanwhile is cut at
/// `length`.
pub(crate) fn send_chunks(
    file: File,
    length: u64,
    path: &str,
    chunks: &mpsc::Sender<Result<v1::FileChunk, Kind>>,
) {
    let mut rest = file.take(length);
    loop {
        let mut buffer = Vec::with_capacity(MESSAGE_BYTES);
        let read = rest.by_ref().take(MESSAGE_BYTES as u64).read_to_end(&mut buffer);
        let chunk = match read {
            Ok(0) => return,
            Ok(_) => Ok(v1::FileChunk { data: buffer.into(), ..v1::FileChunk::default() }),
            Err(error) => Err(fault(path, &error)),
        };
        let failed = chunk.is_err();
        if chunks.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// The refusal of a path where a regular file is needed.
pub(crate) fn not_a_file(path: &str) -> Kind {
    Kind::NotAFile(v1::PathFault { path: path.into(), errno: 0 })
}

/// Whether a path was refused because it leaves the workspace, which cap-std tells without an errno.
pub(crate) fn leads_out(error: &io::Error) -> bool {
    match Errno::from_io_error(error) {
        None => error.kind() == io::ErrorKind::PermissionDenied,
        Some(errno) => errno == Errno::XDEV,
    }
}

/// What an error on a path means to the one who named the path.
pub(crate) fn fault(path: &str, error: &io::Error) -> Kind {
    let errno = error.raw_os_error().unwrap_or(0);
    let facts = v1::PathFault { path: path.into(), errno };
    match Errno::from_io_error(error) {
        _ if leads_out(error) => Kind::OutsideWorkspace(facts),
        Some(Errno::NOENT) => Kind::FileUnknown(facts),
        Some(
            Errno::ISDIR | Errno::NOTDIR | Errno::NXIO | Errno::NODEV | Errno::NAMETOOLONG | Errno::LOOP,
        ) => Kind::NotAFile(facts),
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Kind::NoSpace(facts),
        _ => Kind::FileFailed(facts),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::symlink;

    use bytes::Bytes;

    use super::batch::Batch;
    use super::*;

    /// A workspace in a directory of its own.
    pub(crate) struct Fixture {
        pub(crate) dir: tempfile::TempDir,
        pub(crate) workspace: Workspace,
    }

    pub(crate) fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        Fixture { dir, workspace }
    }

    pub(crate) fn part(path: &str, data: &'static [u8]) -> v1::FilePart {
        v1::FilePart {
            head: Some(v1::FileHead { path: path.to_owned().into(), ..v1::FileHead::default() }),
            data: Bytes::from_static(data),
        }
    }

    #[test]
    fn a_link_out_of_the_workspace_is_refused_both_ways() {
        let Fixture { dir, workspace } = fixture();
        let outside = tempfile::NamedTempFile::new().unwrap();
        symlink(outside.path(), dir.path().join("file")).unwrap();
        symlink("/etc", dir.path().join("etc")).unwrap();
        for path in ["file", "etc/passwd", "../x", "/etc/passwd", "etc/../etc/passwd"] {
            let read = workspace.open_file(path, 100).map(drop);
            assert!(matches!(read, Err(Kind::OutsideWorkspace(_))), "read {path}: {read:?}");
            let write = Batch::new(&workspace).add(part(path, b"x"));
            assert!(matches!(write, Err(Kind::OutsideWorkspace(_))), "write {path}: {write:?}");
        }
    }

    #[test]
    fn only_regular_files_of_a_fitting_size_are_read() {
        let Fixture { dir, workspace } = fixture();
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        std::fs::write(dir.path().join("big"), b"123456").unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        assert!(matches!(workspace.open_file("dir", 9), Err(Kind::NotAFile(_))));
        assert!(matches!(workspace.open_file("fifo", 9), Err(Kind::NotAFile(_))));
        assert!(matches!(workspace.open_file("big", 5), Err(Kind::TooLarge(_))));
        assert!(matches!(workspace.open_file("absent", 9), Err(Kind::FileUnknown(_))));
        assert!(matches!(workspace.open_file("a\0b", 9), Err(Kind::FieldInvalid(_))));
        assert!(workspace.open_file("big", 6).is_ok());
    }
}
