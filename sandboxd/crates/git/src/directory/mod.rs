//! Directories that the operator allows, as sources of repositories.
//!
//! Everything in them is hostile. The daemon executes nothing of a directory, follows no link in it, and reads no
//! configuration of git. Of a git repository it reads the names of commits; the objects are copied as they are into the
//! sandbox of a fetch, and only git in that sandbox interprets them. Of any other directory it copies the files.

mod archive;
mod digest;
mod open;
mod refs;
mod walk;

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandboxd_model::limits;
use sandboxd_model::repository::{Advertisement, CommitHash};
use tokio::task::spawn_blocking;

use crate::Error;

pub(crate) use self::archive::{ArchiveStream, Part};
pub use self::digest::DirectoryDigest;

use self::open::{Kind, open_directory, open_path, read_small};
use self::walk::Walk;

/// What is in a directory now.
#[derive(Debug)]
pub enum DirectoryContents {
    /// A git repository.
    Repository(Advertisement),
    /// Other files.
    Files(DirectoryDigest),
}

/// What of a directory an archive has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArchiveOf {
    /// The objects of a git repository.
    Objects,
    /// All files, if they are still those with this hash.
    Files(CommitHash),
}

/// A directory of the operator.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    max_bytes: u64,
}

impl Directory {
    /// A directory, of which at most `max_bytes` are read.
    pub fn new(path: &Path, max_bytes: u64) -> Self {
        Self { path: path.to_owned(), max_bytes }
    }

    /// Looks at the directory. `known` are the files that were found before: if no size and no time has changed since, they
    /// are not read again.
    pub async fn contents(&self, known: Option<DirectoryDigest>) -> Result<DirectoryContents, Error> {
        self.in_thread(move |directory| directory.read_contents(known)).await
    }

    /// Whether the directory is a git repository now.
    pub async fn is_repository(&self) -> Result<bool, Error> {
        self.in_thread(|directory| Ok(git_directory(&directory.open()?)?.is_some())).await
    }

    fn read_contents(&self, known: Option<DirectoryDigest>) -> Result<DirectoryContents, Error> {
        let deadline = Instant::now() + limits::DIRECTORY_LOOK_UP;
        let root = self.open()?;
        match git_directory(&root)? {
            Some(git) => refs::read(&git, deadline).map(DirectoryContents::Repository),
            None => digest::read(&root, &self.walk(deadline), known).map(DirectoryContents::Files),
        }
    }

    fn open(&self) -> Result<OwnedFd, Error> {
        open_path(&self.path).map_err(|source| Error::Directory { source })
    }

    fn walk(&self, deadline: Instant) -> Walk {
        Walk::new(self.max_bytes, deadline)
    }

    async fn in_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let directory = self.clone();
        let work = spawn_blocking(move || work(&directory));
        work.await.unwrap_or_else(|stopped| Err(Error::Directory { source: stopped.into() }))
    }
}

/// The directory of git in a work tree, or `root` itself if it is a bare repository. `None` if it is not a repository.
fn git_directory(root: &OwnedFd) -> Result<Option<OwnedFd>, Error> {
    let found = match Kind::of(root, c".git")? {
        Some(Kind::Directory) => {
            let git = open_directory(root, c".git").map_err(|source| Error::Directory { source })?;
            has_objects(&git)?.then_some(git)
        }
        // It names a path elsewhere on this machine.
        Some(Kind::File | Kind::Link) => {
            return Err(Error::Unsupported(
                "it is a linked work tree or a submodule of git; allow the directory that has its `.git` directory",
            ));
        }
        Some(Kind::Other) | None => {
            let is_bare = Kind::of(root, c"refs")? == Some(Kind::Directory) && has_objects(root)?;
            match is_bare {
                true => Some(root.try_clone().map_err(|source| Error::Directory { source })?),
                false => None,
            }
        }
    };
    let Some(git) = found else { return Ok(None) };
    if Kind::of(&git, c"reftable")?.is_some() {
        return Err(Error::Unsupported("git keeps its refs in reftables there, which are not supported"));
    }
    let objects = open_directory(&git, c"objects").map_err(|source| Error::Directory { source })?;
    if read_small(&objects, &["info", "alternates"], limits::MAX_LOOSE_REF_BYTES)?.is_some() {
        return Err(Error::Unsupported(
            "it shares objects with another repository of git (objects/info/alternates)",
        ));
    }
    Ok(Some(git))
}

/// Whether git would take the directory for its own.
fn has_objects(git: &OwnedFd) -> Result<bool, Error> {
    Ok(Kind::of(git, c"HEAD")? == Some(Kind::File) && Kind::of(git, c"objects")? == Some(Kind::Directory))
}
