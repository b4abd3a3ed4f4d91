//! Writes the members of an archive to the staging directory.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rustix::fs::{Timespec, Timestamps};
use tar::{Entry, EntryType};

use super::error::{bad_member, unreadable};
use super::member_path::{checked, stays_inside};
use super::{BUFFER_BYTES, Unpacker};
use crate::files::batch::{DEFAULT_MODE, MODE_MASK};
use crate::files::path::{FilePath, leads_out};
use crate::limits::{MAX_ARCHIVE_BYTES, MAX_ARCHIVE_MEMBERS};

impl Unpacker<'_> {
    /// Writes a member.
    pub(super) fn add(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<(), Kind> {
        let member = entry.path_bytes().into_owned();
        self.members += 1;
        if self.members > MAX_ARCHIVE_MEMBERS {
            let (what, limit) = ("members in the archive".into(), MAX_ARCHIVE_MEMBERS);
            return Err(Kind::TooMany(v1::TooMany { what, limit }));
        }
        let path = checked(&member).map_err(|problem| bad_member(&member, problem))?;
        let done = match entry.header().entry_type() {
            EntryType::Directory => self.add_dir(entry, path),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let path = path.ok_or_else(|| bad_member(&member, "it has no name"))?;
                self.add_file(entry, &member, &path)?;
                self.reply.files += 1;
                Ok(())
            }
            EntryType::Symlink => {
                let path = path.ok_or_else(|| bad_member(&member, "it has no name"))?;
                self.add_symlink(entry, &member, &path)?
            }
            EntryType::Link => {
                let path = path.ok_or_else(|| bad_member(&member, "it has no name"))?;
                self.add_hard_link(entry, &member, &path)?
            }
            EntryType::XGlobalHeader => Ok(()),
            _ => return Err(bad_member(&member, "it is not a file, directory or link")),
        };
        done.map_err(|error| self.fault(&member, &error))
    }

    /// Creates a directory. Its mode is set at the end, because a read-only directory could not be filled.
    fn add_dir(&mut self, entry: &Entry<'_, impl Read>, path: Option<PathBuf>) -> io::Result<()> {
        let Some(path) = path else { return Ok(()) };
        self.tree.create_dir_all(&path)?;
        if let Ok(mode) = entry.header().mode() {
            self.dir_modes.insert(path, mode & MODE_MASK);
        }
        Ok(())
    }

    fn add_file(&mut self, entry: &mut Entry<'_, impl Read>, member: &[u8], path: &Path) -> Result<(), Kind> {
        if is_pax_sparse(entry) {
            return Err(bad_member(
                member,
                "the pax format for sparse files is not supported; use the GNU format",
            ));
        }
        let mode = entry.header().mode().unwrap_or(DEFAULT_MODE) & MODE_MASK;
        let modified = entry.header().mtime().ok();
        let mut file = self.create(path).map_err(|error| self.fault(member, &error))?;
        let room = MAX_ARCHIVE_BYTES - self.reply.bytes;
        let written = copy(&mut entry.take(room + 1), &mut file).map_err(|error| match error {
            CopyError::Read(error) => unreadable(&error),
            CopyError::Write(error) => self.fault(member, &error),
        })?;
        if written > room {
            let path = String::from_utf8_lossy(member).into_owned();
            let (bytes, max_bytes) = (self.reply.bytes + written, MAX_ARCHIVE_BYTES);
            return Err(Kind::TooLarge(v1::TooLarge { path, bytes, max_bytes }));
        }
        self.reply.bytes += written;
        let finish = file.set_permissions(Permissions::from_mode(mode));
        finish.map_err(|error| self.fault(member, &error))?;
        if let Some(modified) = modified.and_then(|seconds| i64::try_from(seconds).ok()) {
            let time = Timespec { tv_sec: modified, tv_nsec: 0 };
            // A time that the file system cannot store is ignored.
            let _ = rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time });
        }
        Ok(())
    }

    /// Creates a file. A later member with the same name replaces an earlier one, as in tar(1).
    fn create(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let open = || self.tree.open_with(path, &options);
        open().or_else(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => self.make_parent(path)?,
                io::ErrorKind::AlreadyExists => self.tree.remove_file(path)?,
                _ => return Err(error),
            }
            open()
        })
    }

    fn make_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.tree.create_dir_all(parent),
            None => Ok(()),
        }
    }

    fn add_symlink(
        &self,
        entry: &Entry<'_, impl Read>,
        member: &[u8],
        path: &Path,
    ) -> Result<io::Result<()>, Kind> {
        let target = entry.link_name_bytes().ok_or_else(|| bad_member(member, "the link has no target"))?;
        let target = Path::new(OsStr::from_bytes(&target));
        // The link's directory may be reached through other links of the archive, which change its depth.
        self.make_parent(path).map_err(|error| self.fault(member, &error))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let real = parent.map_or(Ok(PathBuf::new()), |parent| self.tree.canonicalize(parent));
        let from = self.to.relative.join(real.map_err(|error| self.fault(member, &error))?);
        if !stays_inside(self.workspace, &from, target) {
            return Err(bad_member(member, "the link leads out of the workspace"));
        }
        let make = || {
            Ok(rustix::fs::symlinkat(target, &self.tree_dir(path)?, path.file_name().unwrap_or_default())?)
        };
        Ok(make().or_else(|error: io::Error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                self.tree.remove_file(path)?;
            }
            make()
        }))
    }

    /// Opens the directory of a member in the tree, and creates it if it is missing.
    fn tree_dir(&self, path: &Path) -> io::Result<Dir> {
        self.make_parent(path)?;
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => self.tree.open_dir(parent),
            None => self.tree.try_clone(),
        }
    }

    fn add_hard_link(
        &self,
        entry: &Entry<'_, impl Read>,
        member: &[u8],
        path: &Path,
    ) -> Result<io::Result<()>, Kind> {
        let target = entry.link_name_bytes().ok_or_else(|| bad_member(member, "the link has no target"))?;
        let target = checked(&target)
            .map_err(|problem| bad_member(member, format!("its link target is invalid: {problem}")))?;
        let target = target.ok_or_else(|| bad_member(member, "the link has no target"))?;
        if !self.tree.symlink_metadata(&target).is_ok_and(|meta| meta.is_file()) {
            return Err(bad_member(member, "the link's target is not a file of the archive"));
        }
        let link = || self.tree.hard_link(&target, &self.tree, path);
        Ok(self.make_parent(path).and_then(|()| link()).or_else(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists && target != path {
                self.tree.remove_file(path)?;
                return link();
            }
            Err(error)
        }))
    }

    fn fault(&self, member: &[u8], error: &io::Error) -> Kind {
        let path = FilePath::found(Path::new(OsStr::from_bytes(member)).to_owned());
        match path.fault(error) {
            kind @ Kind::NoSpace(_) => kind,
            _ if leads_out(error) => bad_member(member, "its path leads out of the workspace"),
            _ => bad_member(member, format!("it conflicts with an earlier member: {}", error.kind())),
        }
    }
}

fn is_pax_sparse(entry: &mut Entry<'_, impl Read>) -> bool {
    let Ok(Some(mut extensions)) = entry.pax_extensions() else { return false };
    extensions
        .any(|extension| extension.is_ok_and(|extension| extension.key_bytes().starts_with(b"GNU.sparse.")))
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Like io::copy, but distinguishes read errors from write errors.
fn copy(from: &mut impl Read, to: &mut impl io::Write) -> Result<u64, CopyError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let read = from.read(&mut buffer).map_err(CopyError::Read)?;
        if read == 0 {
            return Ok(bytes);
        }
        to.write_all(&buffer[..read]).map_err(CopyError::Write)?;
        bytes += read as u64;
    }
}
