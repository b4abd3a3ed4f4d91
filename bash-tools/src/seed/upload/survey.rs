//! Finds, counts and measures files before anything is sent.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};
use rustix::fs::OFlags;

use super::super::{Error, Result};
use super::include::Include;
use super::options::UploadSeed;
use super::skipped::is_skipped;

/// Maximum number of files and directories that are examined. A root with more is probably a mistake.
const MAX_VISITED: usize = 1_000_000;

/// Files to upload.
#[derive(Debug)]
pub(super) struct Survey {
    /// Path of the root, without links.
    pub(super) root: PathBuf,
    /// Entries, sorted by path.
    pub(super) entries: Vec<Entry>,
    /// Size of all files in bytes.
    pub(super) bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path relative to the root.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File {
        bytes: u64,
    },
    /// Link to a path below the root, relative to the link.
    Link {
        target: PathBuf,
    },
}

impl Survey {
    pub(super) fn of(seed: &UploadSeed) -> Result<Self> {
        let include = Include::new(&seed.include)?;
        let mut survey = Self { root: root(&seed.root)?, entries: Vec::new(), bytes: 0 };
        let (mut candidates, mut found, mut visited) = (0, 0, 0);
        for entry in walk(&survey.root) {
            let entry = entry.map_err(|error| unreadable(error, &survey.root))?;
            visited += 1;
            if visited > MAX_VISITED {
                return Err(Error::TooManyFiles { limit: seed.max_files, found, is_all: false });
            }
            let path = entry.path().strip_prefix(&survey.root).unwrap_or(entry.path()).to_owned();
            if entry.file_type().is_none_or(|kind| !kind.is_file() && !kind.is_symlink()) {
                continue;
            }
            candidates += 1;
            if !include.takes(&path) {
                continue;
            }
            let Some(kind) = survey.kind(&entry, &path)? else { continue };
            found += 1;
            if let Kind::File { bytes } = kind {
                survey.bytes = survey.bytes.saturating_add(bytes);
            }
            if found <= seed.max_files {
                survey.entries.push(Entry { path, kind });
            }
        }
        survey.check(seed, found, candidates)
    }

    fn check(self, seed: &UploadSeed, found: usize, candidates: usize) -> Result<Self> {
        if found > seed.max_files {
            return Err(Error::TooManyFiles { limit: seed.max_files, found, is_all: true });
        }
        if self.bytes > seed.max_bytes {
            return Err(Error::TooManyBytes { limit: seed.max_bytes, found: self.bytes });
        }
        if found == 0 && candidates > 0 {
            let (include, root) = (seed.include.clone(), seed.root.clone());
            return Err(Error::NothingIncluded { include, root, candidates });
        }
        Ok(self)
    }

    /// How to upload a file or link. `None` for a link that leads out of the root.
    fn kind(&self, entry: &DirEntry, path: &Path) -> Result<Option<Kind>> {
        if entry.path_is_symlink() {
            let target = fs::read_link(entry.path());
            let target = target.map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
            return Ok(self.inner_target(path, &target).map(|target| Kind::Link { target }));
        }
        // Opened now, so that an unreadable file is detected before the upload.
        let opened = open(&self.root, path)?;
        Ok(opened.map(|(_, meta)| Kind::File { bytes: meta.len() }))
    }

    /// Target of a link, relative to the link. It must be below the root, both as written and as resolved here.
    fn inner_target(&self, link: &Path, target: &Path) -> Option<PathBuf> {
        let dir = link.parent().unwrap_or(Path::new(""));
        let depth = dir.components().count();
        // In the sandbox the root has another path.
        let target = match target.strip_prefix(&self.root) {
            Ok(inner) => (0..depth).map(|_| Path::new("..")).chain([inner]).collect(),
            Err(_) if target.is_absolute() => return None,
            Err(_) => target.to_owned(),
        };
        let leads_out = |real: PathBuf| !real.starts_with(&self.root);
        // A link without a target is kept.
        if fs::canonicalize(self.root.join(link)).is_ok_and(leads_out) {
            return None;
        }
        let mut level = depth;
        for part in target.components() {
            match part {
                Component::ParentDir => level = level.checked_sub(1)?,
                Component::Normal(_) => level += 1,
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Some(target).filter(|target| !target.as_os_str().is_empty())
    }
}

fn root(root: &Path) -> Result<PathBuf> {
    let fail = |source| Error::NoRoot { root: root.to_owned(), source };
    let real = fs::canonicalize(root).map_err(fail)?;
    match fs::metadata(&real).map_err(fail)?.is_dir() {
        true => Ok(real),
        false => Err(Error::RootIsNoDirectory { root: root.to_owned() }),
    }
}

/// Iterates over everything that is not skipped, sorted by name.
fn walk(root: &Path) -> ignore::Walk {
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).git_ignore(true).require_git(false).sort_by_file_name(Ord::cmp);
    // `.gitignore` files above the root are ignored, because some people have one with `*` in their home directory.
    walk.parents(false);
    let top = root.to_owned();
    walk.filter_entry(move |entry| {
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        !entry.path().strip_prefix(&top).is_ok_and(|path| is_skipped(path, is_file))
    });
    walk.build()
}

/// Opens a file below the root. `None` if it is gone or no longer a regular file.
pub(super) fn open(root: &Path, path: &Path) -> Result<Option<(File, Metadata)>> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    // Never waits for the writer of a FIFO and never follows a link, even if one has replaced the file.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = flags.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(root.join(path)) {
        Ok(file) => file,
        Err(error) if is_replaced(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let meta = file.metadata().map_err(unreadable)?;
    Ok(Some((file, meta)).filter(|(_, meta)| meta.is_file()))
}

fn is_replaced(error: &io::Error) -> bool {
    const NO_DEVICE: i32 = rustix::io::Errno::NXIO.raw_os_error();
    const LINK: i32 = rustix::io::Errno::LOOP.raw_os_error();
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(NO_DEVICE | LINK))
}

/// Error for an unreadable path, usually a directory.
fn unreadable(error: ignore::Error, root: &Path) -> Error {
    let path = path_of(&error).map(|path| path.strip_prefix(root).unwrap_or(path)).unwrap_or(root).to_owned();
    let source = error.into_io_error().unwrap_or_else(|| io::Error::other("it cannot be listed"));
    Error::Unreadable { path, source }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        ignore::Error::Loop { child, .. } => Some(child),
        _ => None,
    }
}

/// Permission bits that are kept. setuid, setgid and sticky bits are not.
pub(super) fn mode(meta: &Metadata) -> u32 {
    meta.mode() & 0o777
}

#[cfg(test)]
mod tests;
