//! The workspace's files, as the sandbox's user has them.
//!
//! Every path is resolved beneath the workspace by the kernel (openat2(2), RESOLVE_BENEATH) through cap-std;
//! nothing is decided on the text of a path, so a link swapped in at any moment cannot lead out. The kernel
//! refuses every absolute link there, also one to the workspace itself; such a path is looked up once more
//! from the root, and what it is found to stand for goes the same way as any other. What is opened is looked at
//! before it is read: a fifo would hang, a device would never end.
//!
//! Everything in here blocks and runs on the runtime's blocking threads, in steps that do not wait for a caller:
//! there are few of these threads, and a caller may be slow. In reading order:
//!
//! - [`path`], [`info`]: what a path is, and what is told of a file
//! - [`read`], [`staging`], [`journal`], [`batch`], [`edit`]: the content of files, and how a change is taken back
//! - [`tree`], [`list`]: directories; [`walk`], [`search`], [`watch`]: all that is beneath one
//! - [`pack`], [`archive_input`], [`unpack`], [`merge`]: archives

mod archive_input;
pub(crate) mod batch;
pub(crate) mod edit;
pub(crate) mod info;
mod journal;
pub(crate) mod list;
mod merge;
pub(crate) mod pack;
pub(crate) mod path;
pub(crate) mod read;
mod seam;
pub(crate) mod search;
mod staging;
pub(crate) mod tree;
pub(crate) mod unpack;
mod walk;
pub(crate) mod watch;

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use agent_protocol::fault::Kind;
use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use tokio::sync::{Mutex, OwnedMutexGuard};

use self::path::{FilePath, leads_out};
use self::seam::Step;
use self::staging::Staging;

/// The right to look at files and replace them, which one caller has at a time.
#[derive(Debug)]
pub(crate) struct Change(#[expect(dead_code, reason = "it is there to be held")] OwnedMutexGuard<()>);

/// The workspace as a directory that no path leads out of.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    dir: Dir,
    staging: Arc<Staging>,
    /// Held while files are looked at and replaced, so that of two callers who go by what was there one loses.
    changing: Arc<Mutex<()>>,
}

impl Workspace {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        let staging = Arc::new(Staging::open(root)?);
        let workspace = Self { root: root.to_owned(), dir, staging, changing: Arc::default() };
        journal::recover_kept(&workspace);
        Ok(workspace)
    }

    /// Bytes taken of the file system the workspace is on: one call of the kernel, whatever is in it.
    pub(crate) fn disk_used_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.dir)?;
        Ok(stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize)
    }

    pub(crate) fn path(&self, given: &Bytes) -> Result<FilePath, Kind> {
        FilePath::parse(&self.root, given)
    }

    /// Opens a file of any kind for reading. Never waits for another end to open it.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        self.beneath(path, |path| self.dir.open_with(path, &options))
    }

    pub(crate) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        self.beneath(path, |path| self.dir.open_dir(path))
    }

    /// Opens a directory, making what is missing of it; `made` gets to know what that was, from the top down.
    fn open_dir_making(&self, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<Dir> {
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
                // A caller beside this one made it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Holds off every other change by a caller until it is dropped. Commands do not ask. Waited for without a thread,
    /// because there are few of them and reading needs one too.
    pub(crate) async fn change(&self) -> Change {
        Change(Arc::clone(&self.changing).lock_owned().await)
    }

    /// The same for what holds a thread already, and is one of few that do.
    fn change_now(&self) -> Change {
        Change(Arc::clone(&self.changing).blocking_lock_owned())
    }

    /// Does `act` on the path, and once more on what the path stands for if absolute links alone made it seem to
    /// lead out.
    fn beneath<T>(&self, path: &Path, mut act: impl FnMut(&Path) -> io::Result<T>) -> io::Result<T> {
        act(path).or_else(|error| match self.real(path, &error) {
            Some(real) => act(&real),
            None => Err(error),
        })
    }

    /// What a path that was found to lead out stands for in the workspace. As much of it as exists is looked up; it
    /// may be another path by now, so it proves nothing.
    fn real(&self, relative: &Path, error: &io::Error) -> Option<PathBuf> {
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
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A workspace in a directory of its own.
    pub(crate) struct Fixture {
        pub(crate) dir: tempfile::TempDir,
        pub(crate) workspace: std::sync::Arc<Workspace>,
    }

    impl Fixture {
        pub(crate) fn path(&self, path: &str) -> FilePath {
            self.workspace.path(&Bytes::copy_from_slice(path.as_bytes())).unwrap()
        }
    }

    pub(crate) fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap().into();
        Fixture { dir, workspace }
    }
}
