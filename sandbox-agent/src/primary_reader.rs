//! The primary reader of a command: the one caller whose position decides what the log must keep and when the command
//! has to wait. See [`crate::log_position`].

use tokio::time::Instant;

/// The primary reader of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrimaryReader {
    Absent,
    /// No reader has connected yet. Expires by itself.
    Expected {
        until: Instant,
    },
    /// A reader is connected. The number distinguishes reads and reservations.
    Reading(u64),
    /// The position is reserved for a limited time.
    Reserved(u64),
}

impl PrimaryReader {
    /// Whether a reader has the position or may return to it. An expected reader does not count until it connects.
    pub(crate) fn has_position(self) -> bool {
        match self {
            Self::Reading(_) | Self::Reserved(_) => true,
            Self::Absent | Self::Expected { .. } => false,
        }
    }
}
