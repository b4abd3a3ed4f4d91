//! Space that is kept for the record of acts that free some.
//!
//! On a full disk, no act can be recorded, so none could be done that makes it less full. So the directory has a file of a
//! fixed size. It is emptied for the line of such an act. Until it has its size again, there is no other line.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::{Directory, Error};

/// Bytes that are written at once.
static CHUNK: [u8; 64 * 1024] = [0; 64 * 1024];

/// The reserve of a record.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// `None` without a reserve.
    file: Option<File>,
    bytes: u64,
    is_whole: bool,
}

impl Reserve {
    /// Opens or creates the reserve. 0 bytes is none. On a full disk, its space is taken later. If there is not even room for
    /// its name, this record has none: that must not prevent a start.
    pub(crate) fn open(dir: &Directory, bytes: u64) -> Result<Self, Error> {
        let file = match (bytes > 0).then(|| dir.reserve()) {
            Some(Err(error)) if !error.is_full() => return Err(error),
            opened => opened.and_then(Result::ok),
        };
        let mut reserve = Self { is_whole: file.is_none(), file, bytes };
        let _ = reserve.restore();
        Ok(reserve)
    }

    /// Whether it has its size.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Frees its space.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.set_len(0)?;
        self.is_whole = false;
        Ok(())
    }

    /// Takes its space, if that was released.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_whole) else { return Ok(()) };
        if let Err(error) = allocate(file, self.bytes) {
            // What it has got belongs to the lines that are allowed.
            let _ = file.set_len(0);
            return Err(error);
        }
        self.is_whole = true;
        Ok(())
    }
}

fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        done => return Ok(done?),
    }
    let mut at = 0;
    while at < bytes {
        let part = &CHUNK[..CHUNK.len().min((bytes - at) as usize)];
        file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}
