//! A directory of the host that a server on standard input and output may read and change.
//!
//! Paths are resolved below the directory. A link within it is followed, but none that leads out of it, and no `..` above
//! it. Reads open regular files only. A download appears at its destination when it is complete, and replaces a file or a
//! link there; the file that a link points to is not changed.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use uuid::Uuid;

/// Maximum size of a file that is transferred, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// The directory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HostRoot {
    dir: Arc<Dir>,
    path: PathBuf,
}

/// Why a path of the host cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("it must name a file")]
    NoName,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    #[error("{}", problem_of(.0))]
    Io(#[from] io::Error),
}

/// A download that is not complete yet. Dropping it removes what was written.
pub(crate) struct Incoming {
    dir: Dir,
    file: File,
    temporary: String,
    name: PathBuf,
    bytes: u64,
    is_kept: bool,
}

impl HostRoot {
    /// Opens the directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        Ok(Self { dir: Arc::new(dir), path })
    }

    /// Opens a file for reading. Returns its size too. Blocks.
    pub(crate) fn read(&self, path: &str) -> Result<(File, u64), HostError> {
        let (parent, name) = self.parts(path)?;
        let mut options = OpenOptions::new();
        // Does not wait for the other end of a FIFO.
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = self.dir.open_with(parent.join(name), &options)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(HostError::NotAFile);
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(HostError::TooLarge);
        }
        Ok((file, metadata.len()))
    }

    /// Begins a download. Creates missing parent directories. Blocks.
    pub(crate) fn create(&self, path: &str) -> Result<Incoming, HostError> {
        let (parent, name) = self.parts(path)?;
        let dir = if parent.as_os_str().is_empty() {
            self.dir.try_clone()?
        } else {
            self.dir.create_dir_all(&parent)?;
            self.dir.open_dir(&parent)?
        };
        if dir.symlink_metadata(&name).is_ok_and(|found| found.is_dir()) {
            return Err(HostError::NotAFile);
        }
        let temporary = format!(".sandboxd-{}.part", Uuid::new_v4().simple());
        let file = dir.open_with(&temporary, OpenOptions::new().write(true).create_new(true))?;
        Ok(Incoming { dir, file, temporary, name, bytes: 0, is_kept: false })
    }

    /// Directory and name of a path, relative to the root.
    fn parts(&self, path: &str) -> Result<(PathBuf, PathBuf), HostError> {
        let path = Path::new(path);
        let path = path.strip_prefix(&self.path).unwrap_or(path);
        match path.components().next_back() {
            Some(Component::Normal(name)) if !path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                Ok((path.parent().unwrap_or(Path::new("")).to_owned(), name.into()))
            }
            _ => Err(HostError::NoName),
        }
    }
}

impl Incoming {
    /// Adds bytes. Blocks.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), HostError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > MAX_FILE_BYTES {
            return Err(HostError::TooLarge);
        }
        Ok(self.file.write_all(bytes)?)
    }

    /// Makes the file appear at its destination. Returns its size, and whether it replaced something. Blocks.
    pub(crate) fn keep(mut self) -> Result<(u64, bool), HostError> {
        self.file.sync_all()?;
        let is_replaced = self.dir.symlink_metadata(&self.name).is_ok();
        self.dir.rename(&self.temporary, &self.dir, &self.name)?;
        self.is_kept = true;
        Ok((self.bytes, is_replaced))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_kept {
            // If it cannot be removed, its name says that it is temporary.
            let _ = self.dir.remove_file(&self.temporary);
        }
    }
}

/// Reads the next bytes of a file. Empty at its end. Blocks.
pub(crate) fn read_piece(file: &mut File) -> io::Result<Vec<u8>> {
    const PIECE_BYTES: u64 = 256 * 1024;
    let mut piece = Vec::new();
    file.take(PIECE_BYTES).read_to_end(&mut piece)?;
    Ok(piece)
}

/// The error without the number of the operating system.
fn problem_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".into(),
        io::ErrorKind::PermissionDenied => {
            "it is not below the directory that may be used, or permission is denied".into()
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "a part of its path is a file, or a link that leads to no directory".into()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn content(root: &HostRoot, path: &str) -> Result<Vec<u8>, HostError> {
        let (mut file, _) = root.read(path)?;
        Ok(read_piece(&mut file)?)
    }

    fn write(root: &HostRoot, path: &str, bytes: &[u8]) -> Result<(u64, bool), HostError> {
        let mut incoming = root.create(path)?;
        incoming.write(bytes)?;
        incoming.keep()
    }

    #[test]
    fn paths_do_not_lead_out_of_the_root() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("root");
        fs::create_dir_all(path.join("dir")).unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        fs::write(path.join("own"), "o").unwrap();
        symlink(outer.path(), path.join("out")).unwrap();
        symlink("../secret", path.join("file-out")).unwrap();
        symlink("own", path.join("link")).unwrap();
        let root = HostRoot::open(&path).unwrap();
        assert_eq!(content(&root, "dir/../own").unwrap(), b"o");
        assert_eq!(content(&root, "link").unwrap(), b"o");
        assert_eq!(content(&root, path.canonicalize().unwrap().join("own").to_str().unwrap()).unwrap(), b"o");
        let absolute = outer.path().join("secret").to_str().unwrap().to_owned();
        let hostile = [
            "../secret",
            "out/secret",
            "file-out",
            "dir/../../secret",
            &absolute,
            "/etc/passwd",
            "/x",
            "a\0b",
            "",
        ];
        for path in hostile {
            assert!(content(&root, path).is_err(), "{path:?} was read");
            assert!(path == "file-out" || write(&root, path, b"x").is_err(), "{path:?} was written");
        }
        for path in ["own/new", "own/dir/new", "out/new"] {
            let error = write(&root, path, b"x").unwrap_err().to_string();
            assert!(!error.contains("os error"), "{path}: {error}");
        }
        // The link itself is replaced.
        assert_eq!(write(&root, "file-out", b"new").unwrap(), (3, true));
        assert_eq!(content(&root, "file-out").unwrap(), b"new");
        assert_eq!(fs::read(outer.path().join("secret")).unwrap(), b"s");
        assert!(!outer.path().join("x").exists());
    }

    #[test]
    fn a_download_appears_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let names = || fs::read_dir(dir.path().join("a/b")).unwrap().count();
        let mut incoming = root.create("a/b/file").unwrap();
        incoming.write(b"one").unwrap();
        assert!(!dir.path().join("a/b/file").exists());
        drop(incoming);
        assert_eq!(names(), 0);
        assert_eq!(write(&root, "a/b/file", b"one").unwrap(), (3, false));
        assert_eq!(write(&root, "a/b/file", b"two").unwrap(), (3, true));
        assert_eq!((names(), content(&root, "a/b/file").unwrap()), (1, b"two".to_vec()));
        assert!(write(&root, "a/b", b"x").is_err() && write(&root, "a/b/", b"x").is_err());
        assert_eq!(names(), 1);
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        fs::create_dir(dir.path().join("dir")).unwrap();
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let root = HostRoot::open(dir.path()).unwrap();
        for path in ["socket", "dir", "fifo", "missing"] {
            assert!(root.read(path).is_err(), "{path}");
        }
    }
}
