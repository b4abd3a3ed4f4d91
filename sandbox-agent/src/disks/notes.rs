//! Notes: a text beside each disk that belongs to the daemon's pool of started sandboxes, or did.
//!
//! The text says whose the disk is. It is one word of the daemon's, which signs it, and means nothing here. It is beside the
//! disk so that it has the disk's fate: who restores a backup of the disks also restores the notes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use super::fault::Fault;
use super::pool::{IMAGE, NOTE, PARTIAL, Pool, lock, remove_if_there};

/// Maximum length of a note in bytes. The daemon's own limit is smaller.
const MAX_BYTES: usize = 64 * 1024;

/// Maximum length of a part of a note in the answer, in bytes, so that a line stays below the daemon's limit.
const PART_BYTES: usize = 3000;

impl Pool {
    /// Replaces the note of a disk. It is on the machine's disk when this returns. After an error the note is the old or the
    /// new one.
    pub(super) fn set_note(&self, name: &str, word: &str) -> Result<(), Fault> {
        if word.len() > MAX_BYTES || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::Unknown);
        }
        let slot = self.slot(name);
        let _held = lock(&slot);
        if !self.path(name, IMAGE).exists() {
            return Err(Fault::Absent);
        }
        let partial = self.dir().join(format!("{name}.{NOTE}.{PARTIAL}"));
        let write = || {
            remove_if_there(&partial)?;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
            file.write_all(word.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, self.path(name, NOTE))?;
            File::open(self.dir())?.sync_all()
        };
        write().map_err(Fault::io("write note"))
    }

    /// The note of a disk in parts. Fails with [`Fault::Absent`] if it has none.
    pub(super) fn note(&self, name: &str) -> Result<Vec<String>, Fault> {
        let slot = self.slot(name);
        let _held = lock(&slot);
        match fs::read(self.path(name, NOTE)) {
            Ok(word) => {
                Ok(word.chunks(PART_BYTES).map(|part| String::from_utf8_lossy(part).into_owned()).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Fault::Absent),
            Err(error) => Err(Fault::io("read note")(error)),
        }
    }

    pub(super) fn remove_note(&self, name: &str) -> Result<(), Fault> {
        remove_if_there(&self.path(name, NOTE)).map_err(Fault::io("remove note"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_replaced_and_goes_with_its_disk() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::open(dir.path()).unwrap();
        assert!(matches!(pool.set_note("a", "one"), Err(Fault::Absent)), "there is no such disk");
        fs::write(pool.path("a", IMAGE), "").unwrap();
        assert!(matches!(pool.note("a"), Err(Fault::Absent)));
        pool.set_note("a", "one").unwrap();
        let long = "x".repeat(MAX_BYTES);
        pool.set_note("a", &long).unwrap();
        for bad in ["two words", "two\nlines", "ä", &format!("{long}x")] {
            assert!(matches!(pool.set_note("a", bad), Err(Fault::Unknown)), "{bad:.20}");
        }
        let parts = pool.note("a").unwrap();
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= PART_BYTES));
        assert_eq!(parts.concat(), long);
        // As after an interrupted removal.
        fs::remove_file(pool.path("a", IMAGE)).unwrap();
        pool.remove("a").unwrap();
        assert!(matches!(pool.note("a"), Err(Fault::Absent)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
