//! What the helper says went wrong.

use thiserror::Error;

/// Why something could not be done with a disk.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DiskFault {
    /// There is no such disk, or it was not attached by this helper, which then is another than before.
    #[error("there is no such disk")]
    Absent,
    /// Its file system has another UUID than it should have, or its link was changed meanwhile.
    #[error("another file system is in its place: {0}")]
    Mismatch(String),
    /// Something has it mounted or attached.
    #[error("it is in use")]
    Busy,
    /// The pool's file system has no room.
    #[error("no room is left for it: {0}")]
    Full(String),
    /// The kernel lends no loop device for it.
    #[error("no loop device is free for it: {0}")]
    NoDevice(String),
    /// The helper tried and failed; its own words.
    #[error("the helper failed: {0}")]
    Failed(String),
    /// The helper ended, or said what nobody understands.
    #[error("its helper went away")]
    HelperAway,
}

impl DiskFault {
    /// Reads what comes after `err` in an answer.
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
    fn every_word_of_the_helper_is_a_fault() {
        assert_eq!(DiskFault::parse("busy in use"), DiskFault::Busy);
        assert_eq!(DiskFault::parse("mismatch it is x"), DiskFault::Mismatch("it is x".into()));
        assert_eq!(DiskFault::parse("device it says"), DiskFault::NoDevice("it says".into()));
        assert_eq!(DiskFault::parse("new word"), DiskFault::Failed("word".into()));
        assert_eq!(DiskFault::parse(""), DiskFault::Failed(String::new()));
    }
}
