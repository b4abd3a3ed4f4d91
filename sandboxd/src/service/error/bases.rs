//! Why the base of a sandbox cannot be used.

use sandbox_api::ErrorCode;
use serde_json::json;

use crate::model::PublicError;

/// What is wrong with the base of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseFault {
    /// Its image does not exist.
    Missing,
    /// The kernel does not mount its image.
    Damaged,
}

impl BaseFault {
    /// The part of the error that clients see. The code is the one of a disk that cannot be used now: the files exist.
    pub(super) fn to_public(self, base: &str) -> PublicError {
        let (reason, problem) = match self {
            Self::Missing => (
                "base_missing",
                "is missing on the engine; create a sandbox from the same snapshot, which makes it again, or restore its file",
            ),
            Self::Damaged => (
                "base_damaged",
                "cannot be mounted on the engine; its file is damaged, or the kernel does not support it",
            ),
        };
        PublicError::new(
            ErrorCode::Unavailable,
            format!("the sandbox cannot start: its base {base} {problem}"),
            json!({ "reason": reason, "base": base }),
        )
    }

    /// What an operator can do about it.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Missing => {
                "create a sandbox from the same snapshot, or restore the file of the base in the volume of disks"
            }
            Self::Damaged => {
                "move the file of the base out of the volume of disks, and create a sandbox from the same snapshot"
            }
        }
    }
}
