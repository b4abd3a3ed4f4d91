//! A path as its caller gave it, and as it is seen from the workspace.
//!
//! Decides nothing about where a path leads: that is the kernel's, whenever the path is used.

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
    /// Lossy, for the caller to read.
    given: String,
    /// Without the workspace's own name in front, `.` and doubled slashes.
    pub(crate) relative: PathBuf,
    /// It ends in a slash, so it can only mean a directory.
    is_dir_like: bool,
}

impl FilePath {
    /// Reads a path: relative to the workspace at `root`, or absolute and beneath it. Empty is the workspace.
    pub(crate) fn parse(root: &Path, given: &Bytes) -> Result<Self, Kind> {
        if given.len() > MAX_PATH_BYTES || given.contains(&0) {
            return Err(invalid("path", format!("is not at most {MAX_PATH_BYTES} bytes without NUL")));
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

    /// A path of our own making, for what is found beneath another.
    pub(crate) fn found(relative: PathBuf) -> Self {
        Self { given: relative.to_string_lossy().into_owned(), relative, is_dir_like: false }
    }

    /// The same path, for its caller, that was found to mean another place.
    pub(crate) fn followed_to(self, relative: PathBuf) -> Self {
        Self { relative, ..self }
    }

    /// As the directory operations want it: they have no word for nothing.
    pub(crate) fn as_path(&self) -> &Path {
        if self.is_workspace() { Path::new(".") } else { &self.relative }
    }

    /// Whether it names the workspace itself.
    pub(crate) fn is_workspace(&self) -> bool {
        self.relative.as_os_str().is_empty()
    }

    /// Directory and name of something other than the workspace; refused where the path has no last name.
    pub(crate) fn split(&self) -> Result<(&Path, &OsStr), Kind> {
        let name =
            self.relative.file_name().filter(|_| !self.is_dir_like).ok_or_else(|| self.not_a_file())?;
        Ok((self.parent(), name))
    }

    /// As [`FilePath::split`], where a directory may be meant.
    pub(crate) fn split_dir(&self) -> Result<(&Path, &OsStr), Kind> {
        let name = self.relative.file_name().ok_or_else(|| self.not_a_file())?;
        Ok((self.parent(), name))
    }

    fn parent(&self) -> &Path {
        self.relative.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// The refusal where a regular file is needed.
    pub(crate) fn not_a_file(&self) -> Kind {
        Kind::NotAFile(self.facts(0))
    }

    /// As [`FilePath::fault`], where a directory is needed.
    pub(crate) fn dir_fault(&self, error: &io::Error) -> Kind {
        match error.kind() {
            io::ErrorKind::NotADirectory => Kind::NotADirectory(self.facts(0)),
            _ => self.fault(error),
        }
    }

    /// As [`FilePath::fault`], for what is looked up and not made: nothing is beneath what is no directory.
    pub(crate) fn lookup_fault(&self, error: &io::Error) -> Kind {
        match error.kind() {
            io::ErrorKind::NotADirectory => Kind::FileUnknown(self.facts(error.raw_os_error().unwrap_or(0))),
            _ => self.fault(error),
        }
    }

    /// The facts of a refusal about this path.
    pub(crate) fn facts(&self, errno: i32) -> v1::PathFault {
        v1::PathFault { path: self.given.clone(), errno }
    }

    /// What an error on this path means to the one who named it.
    pub(crate) fn fault(&self, error: &io::Error) -> Kind {
        let facts = self.facts(error.raw_os_error().unwrap_or(0));
        match Errno::from_io_error(error) {
            _ if leads_out(error) => Kind::OutsideWorkspace(facts),
            Some(Errno::NOENT) => Kind::FileUnknown(facts),
            Some(
                Errno::ISDIR | Errno::NOTDIR | Errno::NXIO | Errno::NODEV | Errno::NAMETOOLONG | Errno::LOOP,
            ) => Kind::NotAFile(facts),
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Kind::NoSpace(facts),
            Some(Errno::EXIST) => Kind::AlreadyThere(facts),
            Some(Errno::NOTEMPTY) => Kind::NotEmpty(facts),
            _ => Kind::FileFailed(facts),
        }
    }
}

/// Whether a path was refused because it leaves the workspace, which cap-std tells without an errno.
pub(crate) fn leads_out(error: &io::Error) -> bool {
    match Errno::from_io_error(error) {
        None => error.kind() == io::ErrorKind::PermissionDenied,
        Some(errno) => errno == Errno::XDEV,
    }
}

/// The refusal of a field.
pub(crate) fn invalid(field: &str, problem: impl Into<String>) -> Kind {
    Kind::FieldInvalid(v1::FieldInvalid { field: field.into(), problem: problem.into() })
}

/// A path as it travels.
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
    fn a_path_loses_only_what_means_nothing() {
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
    fn a_sibling_with_the_same_beginning_is_outside() {
        for given in ["/workshop/a", "/etc/passwd", "/"] {
            assert!(matches!(parse(given), Err(Kind::OutsideWorkspace(_))), "{given}");
        }
    }

    #[test]
    fn only_what_ends_in_a_name_can_be_a_file() {
        assert!(parse("a/b").unwrap().split().is_ok());
        for given in ["a/", "a/.", "..", "a/..", "", "/work"] {
            assert!(matches!(parse(given).unwrap().split(), Err(Kind::NotAFile(_))), "{given}");
        }
        assert!(parse("a/").unwrap().split_dir().is_ok());
    }
}
