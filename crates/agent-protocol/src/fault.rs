//! A refusal's facts, carried in the details of a gRPC status.
//!
//! The code is coarse and for machines in between; both ends read the [`Fault`].

use prost::Message;
use tonic::{Code, Status};

use crate::v1::Fault;
pub use crate::v1::fault::Kind;

/// The status that carries `kind`.
pub fn to_status(kind: Kind) -> Status {
    let code = match &kind {
        Kind::CommandUnknown(_)
        | Kind::FileUnknown(_)
        | Kind::TerminalUnknown(_)
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
        | Kind::PortClosed(_) => Code::FailedPrecondition,
        Kind::AlreadyThere(_) => Code::AlreadyExists,
        Kind::RangeEmpty(_) => Code::OutOfRange,
        Kind::LimitReached(_) | Kind::TooLarge(_) | Kind::TooMany(_) | Kind::NoSpace(_) => {
            Code::ResourceExhausted
        }
        Kind::OutsideWorkspace(_) => Code::PermissionDenied,
        Kind::FieldInvalid(_) | Kind::ArchiveBad(_) => Code::InvalidArgument,
        Kind::StdinStalled(_) => Code::DeadlineExceeded,
        Kind::FileFailed(_) => Code::Unknown,
    };
    let details = Fault { kind: Some(kind) }.encode_to_vec();
    Status::with_details(code, "refused", details.into())
}

/// The facts in `status`; `None` where it is not a refusal of ours, such as a broken connection.
pub fn from_status(status: &Status) -> Option<Kind> {
    if status.details().is_empty() {
        return None;
    }
    Fault::decode(status.details()).ok()?.kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::StartFailed;

    #[test]
    fn a_fault_survives_the_status_it_travels_in() {
        let kind = Kind::StartFailed(StartFailed { step: "exec".into(), errno: 2, subject: "nope".into() });
        assert_eq!(from_status(&to_status(kind.clone())), Some(kind));
    }

    #[test]
    fn a_status_without_details_is_no_fault() {
        assert_eq!(from_status(&Status::unavailable("gone")), None);
    }
}
