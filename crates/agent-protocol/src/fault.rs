//! The details of an error, carried in the details of a gRPC status.
//!
//! The code is coarse and for intermediaries. Both ends read the [`Fault`]. Details travel in an HTTP/2 header, and a
//! header list has a size limit. So every text is limited when it is sent and again when it is received.

use prost::Message;
use tonic::{Code, Status};

use crate::v1::Fault;
pub use crate::v1::fault::Kind;

/// Maximum length of a text in a fault, in bytes. A fault has at most two texts.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Marks the end of a cut text.
const ELLIPSIS: &str = "…";

/// Returns the status that carries `kind`, with its texts limited.
pub fn to_status(mut kind: Kind) -> Status {
    limit_texts(&mut kind);
    let code = match &kind {
        Kind::CommandUnknown(_)
        | Kind::FileUnknown(_)
        | Kind::TerminalUnknown(_)
        | Kind::ContextUnknown(_)
        | Kind::ConnectionUnknown(_) => Code::NotFound,
        Kind::StartFailed(_)
        | Kind::NotAFile(_)
        | Kind::NotADirectory(_)
        | Kind::ConditionFailed(_)
        | Kind::NotEmpty(_)
        | Kind::TextCount(_)
        | Kind::TerminalEnded(_)
        | Kind::InputNotTaken(_)
        | Kind::StdinNotOpen(_)
        | Kind::ReadOnlyUnavailable(_)
        | Kind::TreeRejected(_)
        | Kind::ContextBusy(_)
        | Kind::ToolCallOver(_)
        | Kind::PortClosed(_) => Code::FailedPrecondition,
        Kind::AlreadyThere(_) | Kind::CommandDiffers(_) => Code::AlreadyExists,
        Kind::RangeEmpty(_) => Code::OutOfRange,
        Kind::LimitReached(_) | Kind::TooLarge(_) | Kind::TooMany(_) | Kind::NoSpace(_) => {
            Code::ResourceExhausted
        }
        Kind::OutsideWorkspace(_) => Code::PermissionDenied,
        Kind::FieldInvalid(_) | Kind::ArchiveBad(_) => Code::InvalidArgument,
        Kind::StdinStalled(_) => Code::DeadlineExceeded,
        Kind::NotPutBack(_) => Code::Aborted,
        Kind::FileFailed(_) => Code::Unknown,
    };
    let details = Fault { kind: Some(kind) }.encode_to_vec();
    Status::with_details(code, "refused", details.into())
}

/// Returns the details in `status`, or `None` if the agent did not set any, for example after a broken connection.
pub fn from_status(status: &Status) -> Option<Kind> {
    if status.details().is_empty() {
        return None;
    }
    let mut kind = Fault::decode(status.details()).ok()?.kind?;
    limit_texts(&mut kind);
    Some(kind)
}

/// Cuts every text of `kind` to [`MAX_TEXT_BYTES`].
fn limit_texts(kind: &mut Kind) {
    match kind {
        Kind::CommandUnknown(fault) | Kind::CommandDiffers(fault) => cut(&mut fault.command_id),
        Kind::TerminalUnknown(fault) | Kind::TerminalEnded(fault) => cut(&mut fault.terminal_id),
        Kind::ContextUnknown(fault) | Kind::ContextBusy(fault) => cut(&mut fault.context_id),
        Kind::StartFailed(fault) => {
            cut(&mut fault.step);
            cut(&mut fault.subject);
        }
        Kind::LimitReached(fault) => cut(&mut fault.limit),
        Kind::TooMany(fault) => cut(&mut fault.what),
        Kind::TooLarge(fault) => cut(&mut fault.path),
        Kind::OutsideWorkspace(fault)
        | Kind::FileUnknown(fault)
        | Kind::NotAFile(fault)
        | Kind::NotADirectory(fault)
        | Kind::NoSpace(fault)
        | Kind::FileFailed(fault)
        | Kind::ConditionFailed(fault)
        | Kind::AlreadyThere(fault)
        | Kind::NotEmpty(fault) => cut(&mut fault.path),
        Kind::NotPutBack(fault) => {
            cut(&mut fault.path);
            cut(&mut fault.kept_in);
        }
        Kind::FieldInvalid(fault) => {
            cut(&mut fault.field);
            cut(&mut fault.problem);
        }
        Kind::ArchiveBad(fault) => {
            // Bytes, so no character can be cut in two.
            fault.member.truncate(MAX_TEXT_BYTES);
            cut(&mut fault.problem);
        }
        Kind::TreeRejected(fault) => {
            fault.path.truncate(MAX_TEXT_BYTES);
            cut(&mut fault.problem);
        }
        Kind::TextCount(_)
        | Kind::RangeEmpty(_)
        | Kind::InputNotTaken(_)
        | Kind::StdinNotOpen(_)
        | Kind::StdinStalled(_)
        | Kind::ReadOnlyUnavailable(_)
        | Kind::PortClosed(_)
        | Kind::ToolCallOver(_)
        | Kind::ConnectionUnknown(_) => {}
    }
}

fn cut(text: &mut String) {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES - ELLIPSIS.len()));
        text.push_str(ELLIPSIS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{ArchiveBad, FieldInvalid, PathFault, StartFailed};

    #[test]
    fn a_fault_survives_encoding_in_a_status() {
        let kind = Kind::StartFailed(StartFailed { step: "exec".into(), errno: 2, subject: "nope".into() });
        assert_eq!(from_status(&to_status(kind.clone())), Some(kind));
    }

    #[test]
    fn the_texts_of_a_fault_are_limited_in_both_directions() {
        let long = "ä".repeat(40_000);
        let kinds = [
            Kind::FileUnknown(PathFault { path: long.clone(), errno: 2 }),
            Kind::ArchiveBad(ArchiveBad { member: long.clone().into(), problem: long.clone() }),
            Kind::StartFailed(StartFailed { step: long.clone(), errno: 2, subject: long.clone() }),
            Kind::FieldInvalid(FieldInvalid { field: long.clone(), problem: long }),
        ];
        for kind in kinds {
            assert!(to_status(kind.clone()).details().len() <= 2 * MAX_TEXT_BYTES + 32, "{kind:?}");
            let hostile = Fault { kind: Some(kind) }.encode_to_vec();
            let read = from_status(&Status::with_details(Code::Unknown, "", hostile.into())).unwrap();
            assert!(Fault { kind: Some(read) }.encoded_len() <= 2 * MAX_TEXT_BYTES + 32);
        }
    }

    #[test]
    fn a_status_without_details_is_not_a_fault() {
        assert_eq!(from_status(&Status::unavailable("gone")), None);
    }
}
