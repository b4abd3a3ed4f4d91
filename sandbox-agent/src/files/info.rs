//! Metadata of files.

use std::io;
use std::path::Path;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, FileType};
use cap_std::fs::{Dir, Metadata, MetadataExt, PermissionsExt};

use super::path::{FilePath, to_bytes};
use super::workspace::Workspace;

/// The permission bits of chmod(1).
const MODE_BITS: u32 = 0o7777;

impl Workspace {
    /// Returns the metadata of `path`, without following a link.
    pub(crate) fn stat(&self, path: &FilePath) -> Result<v1::FileInfo, Kind> {
        let looked = self.beneath(path.as_path(), |seen| {
            let meta = self.dir.symlink_metadata(seen)?;
            let target = if meta.is_symlink() { self.dir.read_link_contents(seen).ok() } else { None };
            Ok((meta, target))
        });
        let (meta, target) = looked.map_err(|error| path.lookup_fault(&error))?;
        Ok(info(&path.relative, &meta, target.as_deref()))
    }

    /// Maps an error of a directory lookup. The path may name something else, or nothing.
    pub(super) fn dir_lookup_fault(&self, path: &FilePath, error: &io::Error) -> Kind {
        match error.kind() {
            io::ErrorKind::NotADirectory if self.stat(path).is_ok() => path.dir_fault(error),
            _ => path.lookup_fault(error),
        }
    }
}

/// Returns the metadata of an entry of `dir`, which is at `path`.
pub(super) fn of_entry(dir: &Dir, name: &std::ffi::OsStr, path: &Path) -> io::Result<v1::FileInfo> {
    let meta = dir.symlink_metadata(name)?;
    // Reads the link through the descriptor without following it, so it cannot lead out.
    let target = meta.is_symlink().then(|| rustix::fs::readlinkat(dir, name, Vec::new()));
    let mut info = info(path, &meta, None);
    info.target = target.and_then(Result::ok).map(|target| target.into_bytes().into());
    Ok(info)
}

fn info(path: &Path, meta: &Metadata, target: Option<&Path>) -> v1::FileInfo {
    let kind = match () {
        () if meta.is_file() => FileType::File,
        () if meta.is_dir() => FileType::Directory,
        () if meta.is_symlink() => FileType::Symlink,
        () => FileType::Other,
    };
    v1::FileInfo {
        path: to_bytes(path),
        r#type: kind.into(),
        size_bytes: meta.size(),
        mode: meta.permissions().mode() & MODE_BITS,
        modified_at_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
        target: target.map(to_bytes),
        etag: if kind == FileType::File { etag(meta) } else { String::new() },
    }
}

/// Returns the metadata of an open regular file.
pub(super) fn of_file(path: &Path, meta: &Metadata) -> v1::FileInfo {
    info(path, meta, None)
}

/// Returns a value that changes whenever the content changes. A replaced file has another inode, and writing to a
/// file updates its change time. No process can set the change time (inode(7)).
pub(super) fn etag(meta: &Metadata) -> String {
    format!("{:x}-{:x}-{:x}", meta.ino(), meta.size(), nanoseconds(meta.ctime(), meta.ctime_nsec()))
}

/// Returns the etag of the regular file with this name, if there is one.
pub(super) fn etag_of(dir: &Dir, name: &Path) -> Option<String> {
    dir.symlink_metadata(name).ok().filter(Metadata::is_file).map(|meta| etag(&meta))
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
