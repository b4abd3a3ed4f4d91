//! The names in one directory, in order.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::fs::RawDir;

/// Bytes of directory entries that are read at a time.
const READ_BYTES: usize = 32 * 1024;

/// The names in a directory, in one buffer, because a directory may have a million.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    /// Position and length of each name.
    spans: Vec<(u32, u8)>,
}

/// Why the names were not read.
#[derive(Debug)]
pub(super) enum Failed {
    /// They take more memory than allowed.
    TooMany,
    /// The directory cannot be read.
    Io(io::Error),
}

impl From<rustix::io::Errno> for Failed {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl Names {
    /// Reads the names in `dir`, which was just opened. They take at most `max_bytes` of memory.
    pub(super) fn read(dir: impl AsFd, max_bytes: usize) -> Result<Self, Failed> {
        let mut names = Self::default();
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut entries = RawDir::new(dir, &mut buffer);
        while let Some(entry) = entries.next() {
            names.add(entry?.file_name().to_bytes())?;
            if names.held() > max_bytes {
                return Err(Failed::TooMany);
            }
        }
        names.sort();
        Ok(names)
    }

    fn add(&mut self, name: &[u8]) -> Result<(), Failed> {
        if name == b"." || name == b".." {
            return Ok(());
        }
        let start = u32::try_from(self.bytes.len()).map_err(|_| Failed::TooMany)?;
        let length = u8::try_from(name.len()).map_err(|_| Failed::TooMany)?;
        self.bytes.extend_from_slice(name);
        self.spans.push((start, length));
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by(|a, b| name_at(bytes, *a).cmp(name_at(bytes, *b)));
    }

    /// Memory that the names take, in bytes.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<(u32, u8)>()
    }

    /// The name at a position of the order.
    pub(super) fn get(&self, position: usize) -> Option<&[u8]> {
        self.spans.get(position).map(|span| name_at(&self.bytes, *span))
    }
}

fn name_at(bytes: &[u8], (start, length): (u32, u8)) -> &[u8] {
    &bytes[start as usize..][..usize::from(length)]
}
