//! Faults that the disks' helper reports.

use thiserror::Error;

/// Why an operation on a disk failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DiskFault {
    /// The disk does not exist, or it was attached by an earlier helper, which this one has replaced.
    #[error("it does not exist")]
    Absent,
    /// The file system has another UUID than expected, or the disk's link was changed.
    #[error("it has another file system than expected: {0}")]
    Mismatch(String),
    /// The disk is mounted or attached.
    #[error("it is in use")]
    Busy,
    /// The file system of the pool is full.
    #[error("no space left for it: {0}")]
    Full(String),
    /// The kernel has no free loop device.
    #[error("no free loop device: {0}")]
    NoDevice(String),
    /// The helper failed, with this message.
    #[error("the helper failed: {0}")]
    Failed(String),
    /// The helper ended, or sent an invalid response.
    #[error("the helper has ended")]
    HelperUnavailable,
}

impl DiskFault {
    /// Reads the text after `err` in a response.
    pub(crate) fn parse(words: &str) -> Self {
        let (kind, text) = words.split_once(' ').unwrap_or((words, ""));
        match kind {
            "absent" => Self::Absent,
            "mismatch" => Self::Mismatch(text.to_owned()),
            "busy" => Self::Busy,
            "device" => Self::NoDevice(text.to_owned()),
            "full" => Self::Full(text.to_owned()),
            _ => Self::Failed(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_helper_is_parsed() {
        assert_eq!(DiskFault::parse("busy in use"), DiskFault::Busy);
        assert_eq!(DiskFault::parse("mismatch it is x"), DiskFault::Mismatch("it is x".into()));
        assert_eq!(DiskFault::parse("device it says"), DiskFault::NoDevice("it says".into()));
        assert_eq!(DiskFault::parse("unknown text"), DiskFault::Failed("text".into()));
        assert_eq!(DiskFault::parse(""), DiskFault::Failed(String::new()));
    }
}
