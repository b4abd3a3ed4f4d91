//! Bases: images beside the disks, which many sandboxes share read-only.
//!
//! The daemon writes an image with the suffix `new` through the engine. It gets its final name here when it is
//! complete and on the machine's disk, so a crash never leaves half a base. This program never reads what is in it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use super::fault::Fault;
use super::pool::{PARTIAL, Pool, remove_if_there};

/// Suffix of a complete image.
const BASE: &str = "erofs";

/// Hexadecimal digits of a name.
const NAME_CHARS: usize = 64;

/// A base.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) name: String,
    pub(crate) allocated_bytes: u64,
    /// When it was made, in seconds since 1970.
    pub(crate) made_s: i64,
}

/// Whether a base can have this name. Such a name is never a path.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() == NAME_CHARS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Pool {
    /// Completes a base of `bytes` bytes, which was written before. Idempotent. After an error, nothing is left of it.
    pub(crate) fn finish_base(&self, name: &str, bytes: u64) -> Result<(), Fault> {
        let (image, partial) = (self.path(name, BASE), self.path(name, &format!("{BASE}.{PARTIAL}")));
        let finished = self.rename_when_complete(&partial, &image, bytes);
        if finished.is_err() {
            let _ = fs::remove_file(&partial);
        }
        match finished {
            Err(Fault::Absent) if image.exists() => Ok(()),
            other => other,
        }
    }

    fn rename_when_complete(&self, partial: &PathBuf, image: &PathBuf, bytes: u64) -> Result<(), Fault> {
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(partial);
        let file = open.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Fault::Absent,
            _ => Fault::io("open base")(error),
        })?;
        let found = file.metadata().map_err(Fault::io("look at base"))?.len();
        if found != bytes {
            return Err(Fault::Mismatch { found: format!("{found} bytes long") });
        }
        file.sync_all().map_err(Fault::io("sync base"))?;
        fs::rename(partial, image).map_err(Fault::io("rename base"))?;
        self.sync_dir()
    }

    /// Lists all complete bases.
    pub(crate) fn bases(&self) -> Result<Vec<Base>, Fault> {
        let mut bases = Vec::new();
        for entry in fs::read_dir(self.dir()).map_err(Fault::io("list"))? {
            let path = entry.map_err(Fault::io("list"))?.path();
            if path.extension().is_none_or(|end| end != BASE) {
                continue;
            }
            let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| is_name(name));
            // A base that was removed meanwhile is skipped.
            let (Some(name), Ok(meta)) = (name, fs::symlink_metadata(&path)) else { continue };
            let (allocated_bytes, made_s) = (meta.blocks() * 512, meta.mtime());
            bases.push(Base { name: name.to_owned(), allocated_bytes, made_s });
        }
        Ok(bases)
    }

    /// Deletes a base, complete or not. Idempotent. A sandbox that has it mounted keeps it until its container ends.
    pub(crate) fn remove_base(&self, name: &str) -> Result<(), Fault> {
        let partial = self.path(name, &format!("{BASE}.{PARTIAL}"));
        remove_if_there(&self.path(name, BASE))
            .and_then(|()| remove_if_there(&partial))
            .map_err(Fault::io("remove base"))
    }

    fn sync_dir(&self) -> Result<(), Fault> {
        File::open(self.dir()).and_then(|dir| dir.sync_all()).map_err(Fault::io("sync directory"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_complete_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::open(dir.path()).unwrap();
        let name = "0f".repeat(32);
        let upload = || fs::write(dir.path().join(format!("{name}.erofs.new")), b"image").unwrap();
        assert!(matches!(pool.finish_base(&name, 5), Err(Fault::Absent)));
        upload();
        assert!(matches!(pool.finish_base(&name, 6), Err(Fault::Mismatch { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "half a base was left");
        upload();
        pool.finish_base(&name, 5).unwrap();
        // Asked again, because the answer was lost.
        pool.finish_base(&name, 5).unwrap();
        // Another start removes what is incomplete only.
        upload();
        let pool = Pool::open(dir.path()).unwrap();
        let bases = pool.bases().unwrap();
        assert_eq!(bases.iter().map(|base| &base.name).collect::<Vec<_>>(), [&name]);
        assert!(bases[0].made_s > 0 && pool.list().unwrap().is_empty());
        upload();
        pool.remove_base(&name).unwrap();
        pool.remove_base(&name).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_is_never_a_path() {
        assert!(is_name(&"0f".repeat(32)));
        for name in ["", "0f", &"0F".repeat(32), &"/.".repeat(32)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
