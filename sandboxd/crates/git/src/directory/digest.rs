//! Identifies the files of a directory by their content.
//!
//! Equal files in equal places are the same, whatever their owners and times. To read all files for each request would be
//! slow, so their sizes and times are compared first.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandboxd_model::limits;
use sandboxd_model::repository::CommitHash;
use sha2::{Digest, Sha256};

use super::walk::{Content, Entry, EntryKind, Visited, Walk};
use crate::Error;

/// Distinguishes the hash from others, and from those of later versions of this file.
const DOMAIN: &[u8] = b"sandboxd directory 1\n";

/// Size of the parts in which files are read, in bytes.
const PART_BYTES: usize = 256 * 1024;

/// The files of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryDigest {
    /// Hash of names, kinds and contents: the first 160 bits of SHA-256.
    pub hash: CommitHash,
    /// `None` if files have changed so recently that their times do not tell whether they change again.
    fingerprint: Option<Fingerprint>,
}

/// Hash of names, sizes and times. Equal ones mean equal files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fingerprint([u8; 32]);

/// Reads the files, unless they have the fingerprint of `known`.
pub(super) fn read(
    root: &OwnedFd,
    walk: &Walk,
    known: Option<DirectoryDigest>,
) -> Result<DirectoryDigest, Error> {
    let fingerprint = fingerprint(root, walk)?;
    if let Some(known) = known.filter(|known| known.fingerprint.is_some() && known.fingerprint == fingerprint)
    {
        return Ok(known);
    }
    let mut files = FilesHash::new();
    walk.visit(root, &mut |entry| {
        match entry.kind {
            EntryKind::Directory => files.add_directory(entry),
            EntryKind::Link => files.add_link(entry, &entry.target()?),
            EntryKind::File => {
                let Some(mut content) = entry.open()? else { return Ok(Visited::Skipped) };
                files.add_file(entry);
                let read = files.add_content(&mut content);
                fault_of(read, content)?;
            }
        }
        Ok(Visited::Taken)
    })?;
    Ok(DirectoryDigest { hash: files.finish()?, fingerprint })
}

/// The error of reading a file.
pub(super) fn fault_of(read: io::Result<()>, content: Content) -> Result<(), Error> {
    read.map_err(|source| content.into_fault().unwrap_or(Error::Directory { source }))
}

/// `None` if the last change is so recent that another one may get the same time.
fn fingerprint(root: &OwnedFd, walk: &Walk) -> Result<Option<Fingerprint>, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hash = Sha256::new();
    let mut newest = Duration::ZERO;
    walk.visit(root, &mut |entry| {
        let stat = &entry.stat;
        add_name(&mut hash, b's', entry.path);
        hash.update(stat.st_dev.to_le_bytes());
        hash.update(stat.st_ino.to_le_bytes());
        hash.update(stat.st_mode.to_le_bytes());
        hash.update(stat.st_size.to_le_bytes());
        for (seconds, nanoseconds) in
            [(stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec)]
        {
            hash.update(seconds.to_le_bytes());
            hash.update(nanoseconds.to_le_bytes());
        }
        let changed = Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
        newest = newest.max(changed);
        Ok(Visited::Taken)
    })?;
    let is_settled = newest + limits::DIRECTORY_SETTLED < now;
    Ok(is_settled.then(|| Fingerprint(hash.finalize().into())))
}

/// Hash of files in the order of a walk.
pub(super) struct FilesHash(Sha256);

impl FilesHash {
    pub(super) fn new() -> Self {
        Self(Sha256::new_with_prefix(DOMAIN))
    }

    pub(super) fn add_directory(&mut self, entry: &Entry<'_>) {
        add_name(&mut self.0, b'd', entry.path);
    }

    pub(super) fn add_link(&mut self, entry: &Entry<'_>, target: &Path) {
        add_name(&mut self.0, b'l', entry.path);
        add_name(&mut self.0, b't', target);
    }

    /// Adds a file. As many bytes as it has must follow.
    pub(super) fn add_file(&mut self, entry: &Entry<'_>) {
        add_name(&mut self.0, if is_executable(entry) { b'x' } else { b'f' }, entry.path);
        self.0.update(entry.size().to_le_bytes());
    }

    /// Adds bytes of the last file.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn add_content(&mut self, content: &mut Content) -> io::Result<()> {
        let mut buffer = vec![0; PART_BYTES];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => self.add_bytes(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn finish(self) -> Result<CommitHash, Error> {
        let digits: String = self.0.finalize()[..20].iter().map(|byte| format!("{byte:02x}")).collect();
        digits.parse().map_err(|_| Error::Malformed("the hash of a directory"))
    }
}

/// Whether its owner may execute a file. Only this is kept of a mode, as by git.
pub(super) fn is_executable(entry: &Entry<'_>) -> bool {
    entry.stat.st_mode & 0o100 != 0
}

fn add_name(hash: &mut Sha256, kind: u8, name: &Path) {
    let name = name.as_os_str().as_bytes();
    hash.update([kind]);
    hash.update((name.len() as u64).to_le_bytes());
    hash.update(name);
}
