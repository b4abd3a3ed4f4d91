//! A path as its caller gave it, and relative to the workspace.
//!
//! Makes no decision about where a path leads. The kernel decides whenever the path is used.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use bytes::Bytes;
use rustix::io::Errno;

use crate::limits::MAX_PATH_BYTES;

/// A path that a caller named.
#[derive(Debug, Clone)]
pub(crate) struct FilePath {
    /// Lossy, for messages to the caller.
    given: String,
    /// Without the workspace's own path in front, `.` and repeated slashes.
    pub(crate) relative: PathBuf,
    /// It ends in a slash, so it can only name a directory.
    is_dir_like: bool,
}

impl FilePath {
    /// Parses a path: relative to the workspace at `root`, or absolute and beneath it. An empty path is the
    /// workspace.
    pub(crate) fn parse(root: &Path, given: &Bytes) -> Result<Self, Kind> {
        if given.len() > MAX_PATH_BYTES || given.contains(&0) {
            return Err(invalid("path", format!("must be at most {MAX_PATH_BYTES} bytes long, without NUL")));
        }
        let path = Path::new(OsStr::from_bytes(given));
        let text = String::from_utf8_lossy(given).into_owned();
        let relative = match path.strip_prefix(root) {
            Ok(rest) => rest,
            Err(_) if path.is_relative() => path,
            Err(_) => return Err(Kind::OutsideWorkspace(v1::PathFault { path: text, errno: 0 })),
        };
        let relative = relative.components().filter(|part| *part != Component::CurDir).collect();
        let is_dir_like = given.ends_with(b"/") || given.ends_with(b"/.") || given.ends_with(b"/..");
        Ok(Self { given: text, relative, is_dir_like })
    }

    /// Creates the path of something found beneath another path.
    pub(crate) fn found(relative: PathBuf) -> Self {
        Self { given: relative.to_string_lossy().into_owned(), relative, is_dir_like: false }
    }

    /// Keeps the text of the caller's path, which was found to refer to `relative`.
    pub(crate) fn resolved_to(self, relative: PathBuf) -> Self {
        Self { relative, ..self }
    }

    /// Returns the path for directory operations, which do not accept an empty path.
    pub(crate) fn as_path(&self) -> &Path {
        if self.is_workspace() { Path::new(".") } else { &self.relative }
    }

    /// Whether it names the workspace itself.
    pub(crate) fn is_workspace(&self) -> bool {
        self.relative.as_os_str().is_empty()
    }

    /// Returns directory and name. Fails if the path is the workspace or does not end in a name.
    pub(crate) fn split(&self) -> Result<(&Path, &OsStr), Kind> {
        let name =
            self.relative.file_name().filter(|_| !self.is_dir_like).ok_or_else(|| self.not_a_file())?;
        Ok((self.parent(), name))
    }

    /// Like [`FilePath::split`], but the path may name a directory.
    pub(crate) fn split_dir(&self) -> Result<(&Path, &OsStr), Kind> {
        let name = self.relative.file_name().ok_or_else(|| self.not_a_file())?;
        Ok((self.parent(), name))
    }

    fn parent(&self) -> &Path {
        self.relative.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Returns the error for a path that must be a regular file.
    pub(crate) fn not_a_file(&self) -> Kind {
        Kind::NotAFile(self.details(0))
    }

    /// Like [`FilePath::fault`], if a directory is expected.
    pub(crate) fn dir_fault(&self, error: &io::Error) -> Kind {
        match error.kind() {
            io::ErrorKind::NotADirectory => Kind::NotADirectory(self.details(0)),
            _ => self.fault(error),
        }
    }

    /// Like [`FilePath::fault`], for lookups: a path beneath something that is not a directory does not exist.
    pub(crate) fn lookup_fault(&self, error: &io::Error) -> Kind {
        match error.kind() {
            io::ErrorKind::NotADirectory => {
                Kind::FileUnknown(self.details(error.raw_os_error().unwrap_or(0)))
            }
            _ => self.fault(error),
        }
    }

    /// Returns the details of an error about this path.
    pub(crate) fn details(&self, errno: i32) -> v1::PathFault {
        v1::PathFault { path: self.given.clone(), errno }
    }

    /// Maps an error on this path for its caller.
    pub(crate) fn fault(&self, error: &io::Error) -> Kind {
        let details = self.details(error.raw_os_error().unwrap_or(0));
        match Errno::from_io_error(error) {
            _ if leads_out(error) => Kind::OutsideWorkspace(details),
            Some(Errno::NOENT) => Kind::FileUnknown(details),
            Some(
                Errno::ISDIR | Errno::NOTDIR | Errno::NXIO | Errno::NODEV | Errno::NAMETOOLONG | Errno::LOOP,
            ) => Kind::NotAFile(details),
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Kind::NoSpace(details),
            Some(Errno::EXIST) => Kind::AlreadyThere(details),
            Some(Errno::NOTEMPTY) => Kind::NotEmpty(details),
            _ => Kind::FileFailed(details),
        }
    }
}

/// Whether a path was rejected because it leaves the workspace. cap-std reports that without an errno.
pub(crate) fn leads_out(error: &io::Error) -> bool {
    match Errno::from_io_error(error) {
        None => error.kind() == io::ErrorKind::PermissionDenied,
        Some(errno) => errno == Errno::XDEV,
    }
}

/// Returns the error about a field.
pub(crate) fn invalid(field: &str, problem: impl Into<String>) -> Kind {
    Kind::FieldInvalid(v1::FieldInvalid { field: field.into(), problem: problem.into() })
}

/// Returns the path's bytes for the wire.
pub(crate) fn to_bytes(path: &Path) -> Bytes {
    Bytes::copy_from_slice(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &'static str) -> Result<FilePath, Kind> {
        FilePath::parse(Path::new("/work"), &Bytes::from_static(given.as_bytes()))
    }

    #[test]
    fn a_path_loses_only_redundant_parts() {
        for (given, relative) in [
            ("a//b/./c", "a/b/c"),
            ("/work/a", "a"),
            ("/work", ""),
            ("./", ""),
            ("", ""),
            ("a/../b", "a/../b"),
        ] {
            assert_eq!(parse(given).unwrap().relative, Path::new(relative), "{given}");
        }
        assert_eq!(parse("/work").unwrap().as_path(), Path::new("."));
    }

    #[test]
    fn a_sibling_with_the_same_prefix_is_outside() {
        for given in ["/workshop/a", "/etc/passwd", "/"] {
            assert!(matches!(parse(given), Err(Kind::OutsideWorkspace(_))), "{given}");
        }
    }

    #[test]
    fn only_a_path_that_ends_in_a_name_can_be_a_file() {
        assert!(parse("a/b").unwrap().split().is_ok());
        for given in ["a/", "a/.", "..", "a/..", "", "/work"] {
            assert!(matches!(parse(given).unwrap().split(), Err(Kind::NotAFile(_))), "{given}");
        }
        assert!(parse("a/").unwrap().split_dir().is_ok());
    }
}
