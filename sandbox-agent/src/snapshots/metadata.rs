//! Mode, times and attributes of files and directories.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens};
use snapshot_format::Entry;
use snapshot_format::tree::MODE_BITS;

use super::attributes;

pub(super) fn is_kind(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

pub(super) fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & MODE_BITS)
}

/// Whether a file has the permissions of `mode`. A change of the mode may have cleared the special bits.
pub(super) fn has_permissions(stat: &Stat, mode: Mode) -> bool {
    (mode_of(stat) ^ mode).intersection(Mode::RWXU | Mode::RWXG | Mode::RWXO).is_empty()
}

/// Sets the attributes, time and mode of an open file or directory, in the order in which none changes another.
pub(super) fn set_open(file: impl AsFd, entry: &Entry) -> io::Result<()> {
    let mode = Mode::from_raw_mode(entry.mode);
    if attributes::has_any(&file)? || !entry.attributes.is_empty() {
        // The owner may change attributes only of what its mode lets it read and write.
        fchmod(&file, mode | Mode::RUSR | Mode::WUSR)?;
        attributes::set(&file, &entry.attributes)?;
    }
    // gVisor sets no times of what its owner may not open. A change of the mode leaves them.
    futimens(&file, &times_of(entry))?;
    Ok(fchmod(&file, mode)?)
}

#[expect(clippy::useless_conversion, reason = "the types differ between architectures")]
pub(super) fn times_of(entry: &Entry) -> Timestamps {
    let modified = Timespec { tv_sec: entry.modified_s, tv_nsec: entry.modified_ns.into() };
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT.into() };
    Timestamps { last_access: omitted, last_modification: modified }
}
