//! Why a request to the disks' helper failed.

use std::io;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Not a valid request.
    #[error("not a request")]
    Unknown,
    /// There is no such disk, or it is not attached.
    #[error("no such disk")]
    Absent,
    /// It is not the expected file system, or the link was changed.
    #[error("it is {found}")]
    Mismatch { found: String },
    /// The disk is in use.
    #[error("in use")]
    Busy,
    /// The kernel provides no loop device. This never means full storage, whatever the error is named.
    #[error("{source}")]
    NoDevice { source: io::Error },
    /// A step failed.
    #[error("{step}: {source}")]
    Io { step: &'static str, source: io::Error },
    /// A program failed.
    #[error("{program}: {stderr}")]
    Program { program: &'static str, stderr: String },
}

impl Fault {
    pub(crate) fn io(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { step, source }
    }

    /// Returns its name on the wire.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Absent => "absent",
            Self::Mismatch { .. } => "mismatch",
            Self::Busy => "busy",
            Self::NoDevice { .. } => "device",
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => "full",
            // Programs report it only as text, and their locale here does not translate it.
            Self::Program { stderr, .. } if stderr.contains("No space left on device") => "full",
            Self::Io { .. } | Self::Program { .. } => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_distinguished_from_other_failures() {
        let program = |stderr: &str| Fault::Program { program: "mke2fs", stderr: stderr.into() }.kind();
        assert_eq!(program("write: No space left on device"), "full");
        assert_eq!(program("killed"), "failed");
        assert_eq!(Fault::io("size image")(io::ErrorKind::StorageFull.into()).kind(), "full");
        assert_eq!(Fault::NoDevice { source: io::ErrorKind::StorageFull.into() }.kind(), "device");
    }
}
