//! Labels, and the closed sets of their values.

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
    /// Empty if the result says everything.
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

/// A repair of a difference between the actual and the desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// A container or volume without a sandbox.
    Orphan,
    /// A disk without a sandbox.
    Disk,
    /// A network without a sandbox.
    Network,
    /// A directory in the run dir without a sandbox.
    RunDir,
    /// A sandbox or a published port whose container had ended by itself.
    Ended,
    /// A sandbox whose container was paused.
    Paused,
    /// A sandbox whose container was renamed.
    Renamed,
    /// A sandbox whose workspace was missing.
    Workspace,
    /// A create, wake, park or delete that was interrupted.
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

/// Result of a sandbox's request for an outbound connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The connection was opened.
    Allowed,
    /// The connection was denied, or closed because of what was sent.
    Denied(DenialReason),
    /// The connection was permitted and failed.
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

/// Direction of bytes, as a sandbox sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the outside.
    Out,
    /// From the outside.
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

/// Every state. A state without a sandbox is reported as zero.
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
        Stream::Trace => "trace",
        Stream::Stage => "stage",
    }
}

/// A method may be any word (RFC 9110 section 9.1). Unknown methods share one value.
pub(super) fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}
