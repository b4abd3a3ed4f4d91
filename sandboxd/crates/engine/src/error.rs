//! Errors of calls to the engine.

use std::path::PathBuf;
use std::time::Duration;

use bollard::errors::Error as BollardError;
use thiserror::Error;

use super::disk_fault::DiskFault;
use sandboxd_model::{EngineAddress, limits};

/// A call to the engine failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The path of the socket does not exist.
    #[error("no Docker engine: the socket {} cannot be opened", path.display())]
    NoSocket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The daemon has no permission to use the socket.
    #[error("no permission to use the Docker engine at {address}")]
    NoPermission {
        /// Address of the engine.
        address: String,
        /// Error of the system.
        source: BollardError,
    },
    /// Nothing responds at the address.
    #[error("no Docker engine answers at {address}")]
    Unreachable {
        /// Address of the engine.
        address: String,
        /// Error of the connection.
        source: BollardError,
    },
    /// The engine accepts connections and does not respond.
    #[error("the Docker engine at {address} accepts connections and does not answer")]
    NoAnswer {
        /// Address of the engine.
        address: String,
    },
    /// A container runs, and the engine reports no host port for it.
    #[error("the engine published no port for {name}")]
    NotPublished {
        /// Name of the container.
        name: String,
    },
    /// A call took too long.
    #[error("the engine did not answer `{call}` within {after:?}")]
    Deadline {
        /// Name of the call.
        call: &'static str,
        /// Time limit of the call.
        after: Duration,
    },
    /// The object of the call does not exist.
    #[error("the object of `{call}` does not exist on the engine")]
    Absent {
        /// Name of the call.
        call: &'static str,
        /// Error of the engine.
        source: BollardError,
    },
    /// The object that the call creates already exists.
    #[error("the object of `{call}` already exists on the engine")]
    Conflict {
        /// Name of the call.
        call: &'static str,
        /// Error of the engine.
        source: BollardError,
    },
    /// A network has the name of one of ours, but other options.
    #[error("the network {name} is not one that sandboxd made; remove it")]
    OtherNetwork {
        /// Name of the network.
        name: String,
    },
    /// The engine rejected the call.
    #[error("the engine refused `{call}`")]
    Refused {
        /// Name of the call.
        call: &'static str,
        /// Error of the engine.
        source: BollardError,
    },
    /// The response is not valid for an engine.
    #[error("cannot read the engine's response to `{call}`")]
    Malformed {
        /// Name of the call.
        call: &'static str,
        /// The problem.
        source: BollardError,
    },
    /// The engine failed: its response was 5xx.
    #[error("the engine failed in `{call}`")]
    Failed {
        /// Name of the call.
        call: &'static str,
        /// Error of the engine.
        source: BollardError,
    },
    /// The engine counts a mount of a volume that is not mounted. Engines before 24 do this after a restart with
    /// live-restore, until the next restart. Only the engine can correct the count.
    #[error("the engine counts the volume {name} as in use until it restarts")]
    Miscounted {
        /// Name of the volume.
        name: String,
    },
    /// The configured OCI runtime is not installed.
    #[error("the engine has no runtime {wanted:?}, only {}", known.join(", "))]
    UnknownOciRuntime {
        /// The configured runtime.
        wanted: String,
        /// The installed runtimes.
        known: Vec<String>,
    },
    /// The sandbox image is missing, and must not or cannot be created.
    #[error("the image {image} is missing; run `sandboxd build-image` (or `make image`)")]
    ImageMissing {
        /// Tag of the image.
        image: String,
    },
    /// The image's folder cannot be read.
    #[error("cannot read the image's folder {}", path.display())]
    ImageFolder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The build of the image failed.
    #[error("building the image failed: {last_words}")]
    ImageBuild {
        /// Last line that the engine printed.
        last_words: String,
    },
    /// There is no registry and no imported base image, and the script that creates one failed.
    #[error("cannot make the base image with {}", script.display())]
    BaseImage {
        /// Path of the script.
        script: PathBuf,
        /// Error of the script.
        source: std::io::Error,
    },
    /// An operation on a disk, or on all disks, failed.
    #[error("`{call}` failed for {}", if name.is_empty() { "the disks" } else { name })]
    Disk {
        /// Name of the operation.
        call: &'static str,
        /// Name of the disk. Empty if no single disk is concerned.
        name: String,
        /// The cause.
        source: DiskFault,
    },
    /// Files could not be copied from one container to another.
    #[error("the files could not be copied")]
    Copy {
        /// The cause.
        source: std::io::Error,
    },
    /// The volume plugin's program cannot be read.
    #[error("cannot read the volume plugin's program {}", path.display())]
    VolumePluginProgram {
        /// Path of the program.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The agent's program cannot be read.
    #[error("cannot read the agent's program {}", path.display())]
    AgentProgram {
        /// Path of the program.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl Error {
    pub(super) fn unreachable(address: &EngineAddress, source: BollardError) -> Self {
        let text = address.to_string();
        match (io_kind(&source), address) {
            (Some(kind @ std::io::ErrorKind::NotFound), EngineAddress::Unix(path)) => {
                Self::NoSocket { path: path.clone(), source: kind.into() }
            }
            (Some(std::io::ErrorKind::PermissionDenied), _) => Self::NoPermission { address: text, source },
            _ => Self::Unreachable { address: text, source },
        }
    }

    pub(super) fn from_call(call: &'static str, address: &EngineAddress, source: BollardError) -> Self {
        match &source {
            BollardError::DockerResponseServerError { status_code, .. } => match status_code {
                404 => Self::Absent { call, source },
                409 => Self::Conflict { call, source },
                500.. => Self::Failed { call, source },
                _ => Self::Refused { call, source },
            },
            // The client's own time limit is the longest of ours.
            BollardError::RequestTimeoutError => Self::Deadline { call, after: limits::ENGINE_CALL },
            // An error in the middle of a stream of the engine.
            BollardError::DockerStreamError { .. } | BollardError::DockerContainerWaitError { .. } => {
                Self::Failed { call, source }
            }
            _ if io_kind(&source).is_some() => Self::unreachable(address, source),
            _ => Self::Malformed { call, source },
        }
    }

    /// Whether the engine itself is unavailable. False if it rejected the call.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::NoSocket { .. }
                | Self::NoPermission { .. }
                | Self::Unreachable { .. }
                | Self::NoAnswer { .. }
                | Self::Deadline { .. }
        )
    }

    /// Whether the engine is at fault, and not the call. Such a fault is temporary, or its operator can correct it.
    pub fn is_temporary(&self) -> bool {
        let is_engine_fault = |error: &Self| {
            matches!(error, Self::Failed { .. } | Self::Malformed { .. } | Self::ImageMissing { .. })
        };
        self.is_unavailable() || is_engine_fault(self)
    }

    /// Whether the volume plugin could not mount the base of a disk (`volume-plugin/src/layers.rs`). The engine passes on
    /// the plugin's text only.
    pub fn is_base_rejected(&self) -> bool {
        matches!(self, Self::Failed { source, .. } if source.to_string().contains("cannot mount the base"))
    }

    /// Whether the error says nothing about the object, so that the call must be repeated.
    pub fn is_inconclusive(&self) -> bool {
        self.is_unavailable() || matches!(self, Self::Malformed { .. })
    }

    /// Whether a start that fails with this error is retried, because the cause may disappear while the daemon runs.
    pub fn is_retried_at_start(&self) -> bool {
        self.is_temporary() || matches!(self, Self::ImageBuild { .. } | Self::BaseImage { .. })
    }

    /// The kind of a failed call, for the metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "absent",
            Self::Conflict { .. } => "conflict",
            Self::Refused { .. } => "refused",
            Self::Failed { .. } | Self::Miscounted { .. } => "failed",
            Self::Malformed { .. } => "malformed",
            Self::Deadline { .. } => "deadline",
            _ if self.is_unavailable() => "away",
            _ => "other",
        }
    }

    /// What an operator can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::NoSocket { .. } | Self::Unreachable { .. } | Self::NoAnswer { .. } => Some(
                "start it (`systemctl start docker`, or `make engine`), or name its socket in SANDBOXD_DOCKER_SOCKET",
            ),
            Self::NoPermission { .. } => {
                Some("run sandboxd as root or as a member of the socket's group (`usermod -aG docker $USER`)")
            }
            Self::UnknownOciRuntime { .. } => Some(
                "register it in the engine's daemon.json (docs/gvisor.md shows how), or name one of these in SANDBOXD_RUNTIME",
            ),
            Self::AgentProgram { .. } => {
                Some("build it with `make build`, or name it in SANDBOXD_AGENT_PATH")
            }
            _ => None,
        }
    }
}

/// The kind of the I/O error among the causes. A refused or broken connection has one.
fn io_kind(error: &BollardError) -> Option<std::io::ErrorKind> {
    // It reports the causes of its cause, but not its cause.
    if let BollardError::IOError { err } = error {
        return Some(err.kind());
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut is_connection = matches!(error, BollardError::HyperResponseError { .. });
    while let Some(current) = cause {
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        is_connection |= current.is::<hyper::Error>();
        cause = current.source();
    }
    is_connection.then_some(std::io::ErrorKind::Other)
}
