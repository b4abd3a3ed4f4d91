//! Small archives for the engine, built in memory.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tar::{Builder, EntryType, Header};

/// Size of a block of an archive (POSIX pax, ustar interchange format).
const BLOCK: u64 = 512;

/// An archive being written. Memory accepts every write, so only reading files can fail.
pub(super) struct Archive {
    builder: Builder<Vec<u8>>,
}

impl Archive {
    pub(super) fn new() -> Self {
        Self { builder: Builder::new(Vec::new()) }
    }

    /// Adds a directory with an owner.
    pub(super) fn dir(&mut self, name: &str, mode: u32, uid: u32) -> io::Result<()> {
        let mut header = header(EntryType::Directory, mode, uid, 0);
        self.builder.append_data(&mut header, format!("{name}/"), io::empty())
    }

    /// Adds a file that root owns.
    pub(super) fn file(&mut self, name: impl AsRef<Path>, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut header = header(EntryType::Regular, mode, 0, content.len() as u64);
        self.builder.append_data(&mut header, name, content)
    }

    /// Adds the contents of a directory of this machine, owned by root.
    pub(super) fn tree(&mut self, root: &Path) -> io::Result<()> {
        for path in files_below(root)? {
            let mode = if is_executable(&path)? { 0o755 } else { 0o644 };
            let name = path.strip_prefix(root).map_err(io::Error::other)?;
            self.file(name, mode, &std::fs::read(&path)?)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<Bytes> {
        Ok(self.builder.into_inner()?.into())
    }
}

/// What is before the content of the only file of an archive.
pub(super) fn head(name: impl AsRef<Path>, mode: u32, bytes: u64) -> io::Result<Bytes> {
    let mut builder = Builder::new(Vec::new());
    let mut header = header(EntryType::Regular, mode, 0, bytes);
    builder.append_data(&mut header, name, io::empty())?;
    Ok(std::mem::take(builder.get_mut()).into())
}

/// What is after its content: the rest of the last block, and two empty blocks, which end the archive.
pub(super) fn tail(bytes: u64) -> Vec<u8> {
    let rest = bytes.next_multiple_of(BLOCK) - bytes;
    vec![0; (rest + 2 * BLOCK) as usize]
}

fn header(kind: EntryType, mode: u32, uid: u32, size: u64) -> Header {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(uid.into());
    header.set_gid(uid.into());
    header.set_size(size);
    header.set_mtime(now);
    header
}

fn files_below(root: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn is_executable(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_of_one_file_is_read_back() {
        for length in [0, 1, 511, 512, 513] {
            let content = vec![7; length];
            let head = head("a", 0o400, length as u64).unwrap();
            let bytes = [&head[..], &content, &tail(length as u64)].concat();
            let mut archive = tar::Archive::new(&bytes[..]);
            let mut entries = archive.entries().unwrap();
            let mut entry = entries.next().unwrap().unwrap();
            let mut found = Vec::new();
            io::Read::read_to_end(&mut entry, &mut found).unwrap();
            assert_eq!((found, entry.path().unwrap().to_str()), (content, Some("a")));
            assert!(entries.next().is_none() && bytes.len() % 512 == 0);
        }
    }
}
