//! Errors about archives.

use std::io;

use agent_protocol::fault::{Kind, MAX_TEXT_BYTES};
use agent_protocol::v1;

/// Maximum length of a member's name in a message, so that the problem still fits.
const MAX_SHOWN_BYTES: usize = 128;

/// Returns the error for an archive that cannot be read.
pub(super) fn unreadable(error: &io::Error) -> Kind {
    bad_archive(format!("it is truncated, or not a tar archive (plain, gzip or zstd): {error}"))
}

/// Returns the error for a problem of the archive as a whole.
pub(super) fn bad_archive(problem: impl Into<String>) -> Kind {
    Kind::ArchiveBad(v1::ArchiveBad { member: bytes::Bytes::new(), problem: problem.into() })
}

/// Returns the error for a problem of a member.
pub(super) fn bad_member(member: &[u8], problem: impl AsRef<str>) -> Kind {
    let shown = String::from_utf8_lossy(&member[..member.len().min(MAX_SHOWN_BYTES)]);
    let more = if member.len() > MAX_SHOWN_BYTES { "…" } else { "" };
    let problem = format!("member {shown:?}{more}: {}", problem.as_ref());
    // A member's name may be as long as the headers before it.
    let member = bytes::Bytes::copy_from_slice(&member[..member.len().min(MAX_TEXT_BYTES)]);
    Kind::ArchiveBad(v1::ArchiveBad { member, problem })
}
