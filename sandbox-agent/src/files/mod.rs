//! The workspace's files, accessed as the sandbox's user.
//!
//! The kernel resolves every path beneath the workspace (openat2(2), RESOLVE_BENEATH) through cap-std. No decision is
//! based on the text of a path, so a link that is swapped in at any moment cannot lead out. The kernel rejects every
//! absolute link, even one to the workspace itself. Such a path is resolved once more from the root, and the result
//! is opened beneath the workspace like any other path. A file's type is checked before it is read, because a fifo
//! would block and a device would never end.
//!
//! Everything here blocks, and runs on the runtime's blocking threads in steps that do not wait for a caller. These
//! threads are few, and a caller may be slow. In reading order:
//!
//! - [`workspace`]: the directory itself; [`path`], [`info`]: paths, and the metadata of files
//! - [`read`], [`staging`], [`journal`], [`batch`], [`edit`], [`replace`]: the content of files, and how a change is undone
//! - [`dirs`], [`pinned`], [`tree`], [`list`]: directories, and modes; [`walk`], [`search`], [`watch`]: everything beneath one
//! - [`pack`], [`archive_input`], [`unpack`], [`merge`]: archives

mod archive_input;
pub(crate) mod batch;
pub(crate) mod dirs;
pub(crate) mod edit;
pub(crate) mod info;
mod journal;
pub(crate) mod list;
mod merge;
pub(crate) mod pack;
pub(crate) mod path;
pub(crate) mod pinned;
pub(crate) mod read;
mod replace;
mod seam;
mod search;
pub(crate) mod staging;
pub(crate) mod tree;
#[cfg(test)]
mod undo_tests;
mod unpack;
mod walk;
pub(crate) mod watch;
pub(crate) mod workspace;

use std::io;
use std::path::Path;

use self::workspace::Workspace;
use crate::output_files;

/// Opens the workspace at `root`, and recovers the files that an earlier agent kept in the staging directory.
pub(crate) fn open(root: &Path) -> io::Result<Workspace> {
    let workspace = Workspace::open(root)?;
    journal::recover_kept(&workspace);
    Ok(workspace)
}

/// Opens the directory with output files, for reading. The volume may have none.
pub(crate) fn open_outputs(workspace: &Path) -> Option<Workspace> {
    let outputs = workspace.parent()?.join(output_files::NAME);
    Workspace::open(&outputs).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::path::FilePath;
    use super::*;

    /// A workspace in its own directory.
    pub(crate) struct Fixture {
        pub(crate) dir: tempfile::TempDir,
        pub(crate) workspace: std::sync::Arc<Workspace>,
    }

    impl Fixture {
        pub(crate) fn path(&self, path: &str) -> FilePath {
            self.workspace.path(&Bytes::copy_from_slice(path.as_bytes())).unwrap()
        }
    }

    /// Runs `act` as a user that modes restrict, even if the tests run as root.
    pub(crate) fn as_unprivileged<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        let act = || {
            set_capabilities(None, none).unwrap();
            act()
        };
        std::thread::scope(|scope| scope.spawn(act).join().unwrap())
    }

    pub(crate) fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let workspace = open(dir.path()).unwrap().into();
        Fixture { dir, workspace }
    }
}
