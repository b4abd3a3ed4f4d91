//! The directories of a disk that is used over a base.
//!
//! A new disk has the directories of a workspace in its root, with the sandbox's user as their owner. They move to the
//! directory that becomes the upper layer, except those that the base has: a directory above would hide the mode and the
//! times of the one below. A sandbox sees that layer through the overlay only, and never the disk's root.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fsync, mkdirat, openat, renameat, unlinkat};

use crate::fault::Fault;
use crate::reserve::RESERVE;

const FILES: &str = "upper";
const WORK: &str = "work";

/// The file that has the digest of the disk's base. The kernel does not reject every other base, over which the files of
/// a disk would be wrong.
const BASE: &str = "base";

const BASE_PARTIAL: &str = "base.new";

/// Maximum number of bytes that are read of that file: a digest.
const MAX_BASE_BYTES: u64 = 64;

/// A directory of mke2fs, which no sandbox needs.
const LOST_AND_FOUND: &str = "lost+found";

/// The two directories that an overlay needs. They are on one file system.
#[derive(Debug)]
pub(crate) struct Upper {
    pub(crate) files: PathBuf,
    pub(crate) work: PathBuf,
}

/// Creates the directories and moves the content of a new disk. `lower` is the mounted base. It can be repeated after it was
/// interrupted.
pub(crate) fn prepare(disk: &Path, base: &str, lower: &Path) -> Result<Upper, Fault> {
    let root = open_root(disk).map_err(Fault::io("open the disk's root"))?;
    let found = read_base(&root).map_err(Fault::io("read the base of the disk"))?;
    if let Some(found) = &found
        && found != base
    {
        return Err(Fault::OtherBase(found.clone()));
    }
    let upper = Upper { files: disk.join(FILES), work: disk.join(WORK) };
    let prepared = move_files(&root).and_then(|()| match found {
        Some(_) => Ok(()),
        None => {
            remove_hiding(&upper.files, lower)?;
            // From here on, an empty directory is the user's own.
            write_base(&root, base)
        }
    });
    prepared.map_err(Fault::io("prepare the disk"))?;
    Ok(upper)
}

fn open_root(disk: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, disk, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the base that the disk is used with. A new disk has none.
fn read_base(root: &OwnedFd) -> io::Result<Option<String>> {
    match openat(root, BASE, OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty()) {
        Ok(file) => {
            let mut bytes = Vec::new();
            File::from(file).take(MAX_BASE_BYTES).read_to_end(&mut bytes)?;
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write_base(root: &OwnedFd, base: &str) -> io::Result<()> {
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let mut file =
        File::from(openat(root, BASE_PARTIAL, create | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::RUSR)?);
    file.write_all(base.as_bytes())?;
    file.sync_all()?;
    renameat(root, BASE_PARTIAL, root, BASE)?;
    Ok(fsync(root)?)
}

/// Removes the empty directories that the base has too, the inner ones first. A new disk has a few.
fn remove_hiding(upper: &Path, lower: &Path) -> io::Result<()> {
    for entry in fs::read_dir(upper)? {
        let entry = entry?;
        let (above, below) = (entry.path(), lower.join(entry.file_name()));
        // Both without following a link.
        if !entry.file_type()?.is_dir() || !fs::symlink_metadata(&below).is_ok_and(|below| below.is_dir()) {
            continue;
        }
        remove_hiding(&above, &below)?;
        match fs::remove_dir(&above) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn move_files(root: &OwnedFd) -> io::Result<()> {
    for (name, mode) in [(FILES, 0o755), (WORK, 0o700)] {
        match mkdirat(root, name, Mode::from_raw_mode(mode)) {
            Err(rustix::io::Errno::EXIST) => {}
            other => other?,
        }
    }
    let mut names = Vec::new();
    for entry in Dir::read_from(root)? {
        names.push(entry?.file_name().to_bytes().to_vec());
    }
    names.retain(|name| {
        ![".", "..", FILES, WORK, BASE, BASE_PARTIAL, RESERVE].iter().any(|kept| kept.as_bytes() == name)
    });
    for name in names {
        if name == LOST_AND_FOUND.as_bytes() {
            // A repair of the file system recreates it. Then it has files and is kept.
            let _ = unlinkat(root, LOST_AND_FOUND, AtFlags::REMOVEDIR);
        } else {
            renameat(root, &name[..], root, [FILES.as_bytes(), b"/", &name].concat())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_directories_of_a_new_disk_move_to_the_upper_layer() {
        let (disk, lower) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for dir in ["workspace", ".local/tmp", LOST_AND_FOUND] {
            fs::create_dir_all(disk.path().join(dir)).unwrap();
        }
        let prepare = |base| prepare(disk.path(), base, lower.path());
        let upper = prepare("one").unwrap();
        fs::write(upper.files.join("workspace/file"), "kept").unwrap();
        prepare("one").unwrap();
        assert!(upper.files.join(".local/tmp").is_dir() && upper.work.is_dir());
        assert_eq!(fs::read_to_string(upper.files.join("workspace/file")).unwrap(), "kept");
        let mut names: Vec<_> =
            fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [BASE, FILES, WORK]);
        assert!(matches!(prepare("two"), Err(Fault::OtherBase(found)) if found == "one"));
    }

    #[test]
    fn an_empty_directory_of_a_new_disk_does_not_hide_the_bases() {
        let (disk, lower) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for dir in ["workspace", ".local/tmp", ".staging", "link", "full"] {
            fs::create_dir_all(disk.path().join(dir)).unwrap();
        }
        fs::write(disk.path().join("full/file"), "").unwrap();
        for dir in ["workspace", ".local/tmp", "full"] {
            fs::create_dir_all(lower.path().join(dir)).unwrap();
        }
        symlink("workspace", lower.path().join("link")).unwrap();
        let upper = prepare(disk.path(), "one", lower.path()).unwrap();
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&upper.files).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), [".staging", "full", "link"]);
        // A directory of the user is kept.
        fs::create_dir(upper.files.join("workspace")).unwrap();
        prepare(disk.path(), "one", lower.path()).unwrap();
        assert_eq!(names(), [".staging", "full", "link", "workspace"]);
    }
}
