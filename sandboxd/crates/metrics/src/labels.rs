//! Labels, and the closed sets their values come from.

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use sandbox_api::command::EndReason;
use sandbox_api::network::DenialReason;
use sandbox_api::sandbox::SandboxState;

use sandboxd_model::command::Stream;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) route: Box<str>,
    pub(super) method: &'static str,
    pub(super) status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    pub(super) route: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StreamLabels {
    pub(super) stream: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CallLabels {
    pub(super) call: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EngineErrorLabels {
    pub(super) call: &'static str,
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StateLabels {
    pub(super) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RepairLabels {
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DecisionLabels {
    pub(super) result: &'static str,
    /// Empty where the result says it all.
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DirectionLabels {
    pub(super) direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: &'static str,
}

/// What is put right where the engine or the disk has what should not be there, or has not what should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// A container or volume without a sandbox.
    Orphan,
    /// A disk without a sandbox.
    Disk,
    /// A network, which no sandbox has.
    Network,
    /// A directory in the run dir without a sandbox.
    RunDir,
    /// A sandbox or a published port whose container had ended by itself.
    Ended,
    /// A sandbox whose container somebody had paused.
    Paused,
    /// A sandbox whose container somebody had renamed.
    Renamed,
    /// A sandbox whose workspace was gone.
    Workspace,
    /// A create, wake, park or delete that was cut off.
    CutOff,
}

impl Repair {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::RunDir => "run_dir",
            Self::Ended => "ended",
            Self::Paused => "paused",
            Self::Renamed => "renamed",
            Self::Workspace => "workspace",
            Self::CutOff => "cut_off",
        }
    }
}

/// What became of a sandbox's wish for a connection to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It was made.
    Allowed,
    /// It may not be made, or was cut because of what was sent.
    Denied(DenialReason),
    /// It may be made and could not.
    Failed,
}

impl Decision {
    pub(super) fn labels(self) -> DecisionLabels {
        let (result, reason) = match self {
            Self::Allowed => ("allowed", ""),
            Self::Denied(reason) => ("denied", denial(reason)),
            Self::Failed => ("failed", ""),
        };
        DecisionLabels { result, reason }
    }
}

fn denial(reason: DenialReason) -> &'static str {
    match reason {
        DenialReason::Off => "off",
        DenialReason::HostNotAllowed => "host_not_allowed",
        DenialReason::PortNotAllowed => "port_not_allowed",
        DenialReason::AddressNotAllowed => "address_not_allowed",
        DenialReason::NotPublic => "not_public",
        DenialReason::NameMismatch => "name_mismatch",
        DenialReason::Invalid => "invalid",
        DenialReason::Limit => "limit",
    }
}

/// Which way bytes go, as a sandbox sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the outside.
    Out,
    /// From there.
    In,
}

impl Direction {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

/// Every state; a state without a sandbox is told as zero.
pub(super) const STATES: [SandboxState; 6] = [
    SandboxState::Creating,
    SandboxState::Running,
    SandboxState::Parked,
    SandboxState::Failed,
    SandboxState::Lost,
    SandboxState::Deleted,
];

pub(super) fn state(state: SandboxState) -> &'static str {
    match state {
        SandboxState::Creating => "creating",
        SandboxState::Running => "running",
        SandboxState::Parked => "parked",
        SandboxState::Failed => "failed",
        SandboxState::Lost => "lost",
        SandboxState::Deleted => "deleted",
    }
}

pub(super) fn reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Exited => "exited",
        EndReason::Timeout => "timeout",
        EndReason::Killed => "killed",
        EndReason::Oom => "oom",
        EndReason::Lost => "lost",
    }
}

pub(super) fn stream(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    }
}

/// A method may be any word (RFC 9110 section 9.1); those nobody serves are one.
pub(super) fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}
