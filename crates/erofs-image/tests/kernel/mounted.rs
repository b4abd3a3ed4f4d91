//! An image that the kernel has mounted.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};
use tempfile::TempDir;

use crate::model::{Content, Entry, Files};

/// Whether this machine cannot mount images. Fails in continuous integration.
pub(crate) fn skipped() -> bool {
    let is_able = rustix::process::geteuid().is_root()
        && fs::read_to_string("/proc/filesystems").is_ok_and(|list| list.contains("\terofs\n"));
    assert!(
        is_able || std::env::var_os("CI").is_none(),
        "nothing is skipped under CI: root and EROFS are needed"
    );
    !is_able
}

/// A mounted image. Dropping it unmounts it.
pub(crate) struct Mounted(TempDir);

impl Mounted {
    pub(crate) fn new(image: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let context = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
        fsconfig_set_string(&context, "source", image).unwrap();
        fsconfig_set_flag(&context, "ro").unwrap();
        fsconfig_create(&context).unwrap();
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).unwrap();
        move_mount(&mount, "", CWD, dir.path(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Reads everything.
    pub(crate) fn read(&self) -> Files {
        let root = fs::symlink_metadata(self.path()).unwrap();
        assert_eq!((root.mode() & 0o7777, root.uid(), root.gid()), (0o755, 0, 0));
        let (mut files, mut first) = (Files::new(), HashMap::new());
        self.read_below(b"", &mut files);
        // A hard link is one in the order of all paths, not in the order of the walk.
        for (path, entry) in &mut files {
            if let Content::File(_) = &entry.content {
                let inode = fs::symlink_metadata(self.at(path)).unwrap().ino();
                let name: &Vec<u8> = first.entry(inode).or_insert_with(|| path.clone());
                if name != path {
                    entry.content = Content::HardLink(name.clone());
                }
            }
        }
        files
    }

    fn read_below(&self, dir: &[u8], files: &mut Files) {
        let mut subdirectories = 0;
        for entry in fs::read_dir(self.at(dir)).unwrap() {
            let name = entry.unwrap().file_name();
            let separator = if dir.is_empty() { &b""[..] } else { b"/" };
            let path = [dir, separator, name.as_bytes()].concat();
            files.insert(path.clone(), self.entry(&path));
            if files[&path].content == Content::Directory {
                subdirectories += 1;
                self.read_below(&path, files);
            }
        }
        assert_eq!(fs::symlink_metadata(self.at(dir)).unwrap().nlink(), 2 + subdirectories);
    }

    fn entry(&self, path: &[u8]) -> Entry {
        let at = self.at(path);
        let meta = fs::symlink_metadata(&at).unwrap();
        let kind = meta.file_type();
        let content = if kind.is_dir() {
            Content::Directory
        } else if kind.is_symlink() {
            Content::SymbolicLink(fs::read_link(&at).unwrap().as_os_str().as_bytes().to_vec())
        } else if kind.is_fifo() {
            Content::Fifo
        } else if kind.is_socket() {
            Content::Socket
        } else {
            Content::File(fs::read(&at).unwrap())
        };
        let xattrs = if kind.is_dir() || kind.is_file() { xattrs(&at) } else { BTreeMap::new() };
        assert_eq!((meta.uid(), meta.gid()), (0, 0));
        let modified = (meta.mtime(), meta.mtime_nsec() as u32);
        Entry { content, mode: (meta.mode() & 0o7777) as u16, modified, xattrs }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.path().join(OsStr::from_bytes(path))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

fn xattrs(at: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut list = vec![0; 64 * 1024];
    let length = rustix::fs::listxattr(at, &mut list).unwrap();
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 64 * 1024];
            let length = rustix::fs::getxattr(at, OsStr::from_bytes(name), &mut value).unwrap();
            value.truncate(length);
            (name.to_vec(), value)
        })
        .collect()
}
