//! Unpacks an archive into a directory of the workspace, completely or not at all.
//!
//! The archive is first unpacked in [`super::staging`], where its contents can do no harm. After its end has been read
//! without an error, the tree is moved into the workspace. A member that would leave the workspace is rejected, and so are
//! devices, fifos and links that lead out. Archives are untrusted, and even a harmless one must not be unpacked in part.
//! The number of members, the bytes and the paths are limited, whatever the archive claims.

mod error;
mod member_path;
mod members;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use cap_std::fs::{Dir, Permissions, PermissionsExt};

use self::error::{bad_archive, unreadable};
use super::archive_input::Input;
use super::dirs::{self, fresh_name};
use super::merge::Merge;
use super::path::FilePath;
use super::workspace::Workspace;

/// Maximum number of bytes after an archive's end mark. tar(1) pads to 10 KiB, other programs up to this.
const MAX_TRAILING_BYTES: u64 = 1024 * 1024;

/// Maximum size of the headers before a member: its names, its extensions, and the map of its holes.
const MAX_HEADER_BYTES: u64 = 256 * 1024;

const BUFFER_BYTES: usize = 64 * 1024;

impl Workspace {
    /// Unpacks `archive` into the directory at `path`, which is created if it is missing.
    pub(crate) fn unpack(
        self: &Arc<Self>,
        path: &FilePath,
        archive: impl Read,
    ) -> Result<v1::UnpackReply, Kind> {
        let fail = |error: io::Error| path.dir_fault(&error);
        // The caller gets the error before it has sent everything.
        match self.open_dir(path.as_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        let staging = self.staging.begin().map_err(fail)?;
        let name = fresh_name();
        staging.create_dir(&name).map_err(fail)?;
        let unpacked = dirs::open_no_follow(&staging, &name).map_err(fail).and_then(|tree| {
            let mut unpacker = Unpacker::new(tree, &self.root, path);
            unpacker.run(archive)?;
            let Unpacker { tree, reply, dir_modes, .. } = unpacker;
            let _change = self.change_now();
            Merge::new(self, &staging).run(tree, path)?;
            self.set_modes(path, dir_modes);
            Ok(reply)
        });
        staging.discard_tree(name);
        unpacked
    }

    /// Sets the modes of directories from the bottom up, because a mode may forbid access to those beneath.
    fn set_modes(&self, to: &FilePath, dir_modes: BTreeMap<PathBuf, u32>) {
        for (dir, mode) in dir_modes.into_iter().rev() {
            let path = to.relative.join(dir);
            // A directory that was removed or replaced meanwhile is skipped.
            let _ =
                self.open_dir(&path).and_then(|dir| dir.set_permissions(".", Permissions::from_mode(mode)));
        }
    }
}

/// A running unpack.
struct Unpacker<'a> {
    tree: Dir,
    workspace: &'a Path,
    /// The destination in the workspace.
    to: &'a FilePath,
    reply: v1::UnpackReply,
    members: u64,
    dir_modes: BTreeMap<PathBuf, u32>,
}

impl<'a> Unpacker<'a> {
    fn new(tree: Dir, workspace: &'a Path, to: &'a FilePath) -> Self {
        Self {
            tree,
            workspace,
            to,
            reply: v1::UnpackReply::default(),
            members: 0,
            dir_modes: BTreeMap::new(),
        }
    }

    fn run(&mut self, archive: impl Read) -> Result<(), Kind> {
        let input = BufReader::with_capacity(BUFFER_BYTES, archive);
        let (input, allowance) = Input::decompressed(input).map_err(|error| unreadable(&error))?;
        let mut archive = tar::Archive::new(input);
        let mut entries = archive.entries().map_err(|error| unreadable(&error))?;
        loop {
            // The library keeps all headers before a member in memory, whatever length they claim.
            allowance.set(Some(MAX_HEADER_BYTES));
            let Some(entry) = entries.next() else { break };
            allowance.set(None);
            let mut entry = entry.map_err(|error| unreadable(&error))?;
            self.add(&mut entry)?;
            // The content of a link or directory is ignored. It must not count towards the next headers.
            io::copy(&mut entry, &mut io::sink()).map_err(|error| unreadable(&error))?;
        }
        allowance.set(None);
        let mut input = archive.into_inner();
        if input.is_at_end() {
            return Err(bad_archive("it has no end mark"));
        }
        // Reads on, because a checksum comes last, and the sender should be able to send everything.
        let rest = io::copy(&mut (&mut input).take(MAX_TRAILING_BYTES + 1), &mut io::sink());
        match rest.map_err(|error| unreadable(&error))? {
            0..=MAX_TRAILING_BYTES => Ok(()),
            _ => Err(bad_archive(format!("more than {MAX_TRAILING_BYTES} bytes follow its end mark"))),
        }
    }
}
