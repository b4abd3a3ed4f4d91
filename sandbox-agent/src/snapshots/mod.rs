//! Snapshots: reads the sandbox's files as chunks and trees, and turns them into those of a snapshot.
//!
//! The format is in the crate `snapshot-format`. This module runs as the sandbox's user, on a blocking thread. In reading
//! order:
//!
//! - [`make`]: the walk; [`directory`]: where it is; [`names`]: the entries of one directory
//! - [`file`]: the bytes of one file; [`unreadable`], [`mode_records`]: files without permissions; [`attributes`],
//!   [`metadata`]: a file's metadata
//! - [`stat_cache`]: metadata of the files at the last snapshot
//! - [`sink`]: sends chunks; [`pace`]: lets others work too; [`pause`]: stops the sandbox's processes meanwhile
//! - [`restore`]: the steps of a restore; [`level`], [`target`]: the directory and the file that it writes;
//!   [`volume_path`]: paths without links

mod attributes;
mod directory;
mod file;
mod level;
mod make;
mod metadata;
mod mode_records;
mod names;
mod pace;
mod pause;
mod restore;
mod sink;
mod stat_cache;
mod target;
#[cfg(test)]
mod tests;
mod tree_writer;
mod unreadable;
mod volume_path;

use std::io;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{PathFault, TreeRejected};
use bytes::Bytes;

pub(crate) use self::make::{Source, make};
pub(crate) use self::mode_records::put_modes_back;
pub(crate) use self::pause::Pause;
pub(crate) use self::restore::Restore;
pub(crate) use self::sink::Sink;

/// Directories of the sandbox's volume that a snapshot has.
pub(crate) const ROOTS: [&str; 3] = [".local", "outputs", "workspace"];

/// Directories whose entries a snapshot does not have. It has the directories themselves. The second one is the staging
/// directory of a volume without `.staging`.
const EXCLUDED: [&[u8]; 2] = [b".local/tmp", b"workspace/.sandbox-staging"];

/// Why making a snapshot or restoring one ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It failed.
    Fault(Kind),
    /// The caller no longer waits for it.
    CallerLeft,
}

impl Stop {
    fn rejected(path: &[u8], problem: impl Into<String>) -> Self {
        let path = Bytes::copy_from_slice(path);
        Self::Fault(Kind::TreeRejected(TreeRejected { path, problem: problem.into() }))
    }

    fn failed(path: &[u8], error: &io::Error) -> Self {
        let fault = PathFault {
            path: String::from_utf8_lossy(path).into_owned(),
            errno: error.raw_os_error().unwrap_or(0),
        };
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Fault(Kind::NoSpace(fault)),
            _ => Self::Fault(Kind::FileFailed(fault)),
        }
    }
}

/// An error without a path, such as that of the stat cache.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::failed(b"", &error)
    }
}
