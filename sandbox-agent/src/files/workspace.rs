//! The workspace as a directory, and the right to change it.
//!
//! Opens everything beneath the workspace. The other modules of this folder add the operations on its files.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use agent_protocol::fault::Kind;
use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::{Mode, OFlags};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::path::{FilePath, leads_out};
use super::seam::{self, Step};
use super::staging::{Staging, StagingHandle};

/// The right to check files and replace them. One caller has it at a time.
#[derive(Debug)]
pub(crate) struct Change(#[expect(dead_code, reason = "the guard is only held")] OwnedMutexGuard<()>);

/// The workspace as a directory that no path leads out of.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(super) root: PathBuf,
    pub(super) dir: Dir,
    pub(super) staging: Arc<Staging>,
    /// Held while files are checked and replaced, so that of two conflicting callers one fails.
    changing: Arc<Mutex<()>>,
}

impl Workspace {
    /// Opens the workspace at `root`, and empties its staging directory.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        let staging = Arc::new(Staging::open(root)?);
        Ok(Self { root: root.to_owned(), dir, staging, changing: Arc::default() })
    }

    /// Opens the directory that contains the workspace: the sandbox's volume.
    pub(crate) fn open_volume(&self) -> io::Result<OwnedFd> {
        let volume = self.root.parent().ok_or(io::ErrorKind::NotFound)?;
        Ok(rustix::fs::open(volume, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Opens the staging directory for one change.
    pub(crate) fn open_staging(&self) -> io::Result<StagingHandle> {
        self.staging.begin()
    }

    /// Returns the used bytes of the workspace's file system. Takes one system call, whatever the contents.
    pub(crate) fn disk_used_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.dir)?;
        Ok(stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize)
    }

    /// Whether an absolute path is this directory or beneath it. The rest of the path may lead out again.
    pub(crate) fn contains(&self, given: &[u8]) -> bool {
        Path::new(OsStr::from_bytes(given)).starts_with(&self.root)
    }

    /// Returns the absolute form of a relative path.
    pub(crate) fn absolute(&self, relative: &[u8]) -> PathBuf {
        let relative = Path::new(OsStr::from_bytes(relative));
        // Joining an empty path would append a slash.
        if relative.as_os_str().is_empty() { self.root.clone() } else { self.root.join(relative) }
    }

    pub(crate) fn path(&self, given: &Bytes) -> Result<FilePath, Kind> {
        FilePath::parse(&self.root, given)
    }

    /// Opens a file of any kind for reading. Never waits for the other end of a fifo.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        self.beneath(path, |path| self.dir.open_with(path, &options))
    }

    pub(crate) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        self.beneath(path, |path| self.dir.open_dir(path))
    }

    /// Opens a directory and creates its missing parts. Adds them to `made` from the top down.
    pub(super) fn open_dir_making(&self, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<Dir> {
        match self.open_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found_or_refused => return found_or_refused,
        }
        self.beneath(path, |path| self.make_dirs(path, made))?;
        self.open_dir(path)
    }

    fn make_dirs(&self, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
        let missing =
            path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && self.dir.metadata(dir).is_err());
        let missing: Vec<&Path> = missing.collect();
        for dir in missing.into_iter().rev() {
            match self.dir.create_dir(dir) {
                Ok(()) => {
                    made.push(dir.to_owned());
                    seam::reached(Step::Made)?;
                }
                // Another caller created it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for other callers' changes to end, and excludes new ones until the result is dropped. Commands are not
    /// excluded. Waiting needs no thread, because threads are few and reading needs them too.
    pub(crate) async fn change(&self) -> Change {
        Change(Arc::clone(&self.changing).lock_owned().await)
    }

    /// The same for an operation that already holds a thread.
    pub(super) fn change_now(&self) -> Change {
        Change(Arc::clone(&self.changing).blocking_lock_owned())
    }

    /// Runs `act` on the path. If only absolute links made the path appear to lead out, runs it again on the path
    /// that they resolve to.
    pub(super) fn beneath<T>(
        &self,
        path: &Path,
        mut act: impl FnMut(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        act(path).or_else(|error| match self.resolve(path, &error) {
            Some(resolve) => act(&resolve),
            None => Err(error),
        })
    }

    /// Resolves a path that was found to lead out to a path in the workspace, as far as it exists. It may change at
    /// any time, so the result proves nothing.
    fn resolve(&self, relative: &Path, error: &io::Error) -> Option<PathBuf> {
        if !leads_out(error) || relative.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let (found, rest) = relative.ancestors().find_map(|known| {
            let found = std::fs::canonicalize(self.root.join(known)).ok()?;
            Some((found, relative.strip_prefix(known).ok()?))
        })?;
        let inside = found.strip_prefix(&self.root).ok()?;
        // By components, because joining an empty rest would append a slash.
        Some(Path::new(".").components().chain(inside.components()).chain(rest.components()).collect())
    }
}
