//! What can go wrong between us and the engine.

use std::path::PathBuf;
use std::time::Duration;

use bollard::errors::Error as BollardError;
use thiserror::Error;

use super::disk_fault::DiskFault;
use sandboxd_model::{EngineAddress, limits};

/// A call to the engine failed.
#[derive(Debug, Error)]
pub enum Error {
    /// There is nothing at the socket's path.
    #[error("no Docker engine: the socket {} cannot be opened", path.display())]
    NoSocket {
        /// Where it was looked for.
        path: PathBuf,
        /// Why it cannot be opened.
        source: std::io::Error,
    },
    /// The socket belongs to others.
    #[error("no permission to use the Docker engine at {address}")]
    NoPermission {
        /// Where it is.
        address: String,
        /// What the system said.
        source: BollardError,
    },
    /// Nobody answers there.
    #[error("no Docker engine answers at {address}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What the connection said.
        source: BollardError,
    },
    /// Somebody is there and does not answer.
    #[error("the Docker engine at {address} accepts connections and does not answer")]
    NoAnswer {
        /// Where it is.
        address: String,
    },
    /// A container runs, and the engine tells no port of the host for it.
    #[error("the engine published no port for {name}")]
    NotPublished {
        /// The container.
        name: String,
    },
    /// A call took longer than it may.
    #[error("the engine did not answer `{call}` within {after:?}")]
    Deadline {
        /// Which call.
        call: &'static str,
        /// Its deadline.
        after: Duration,
    },
    /// The thing the call is about does not exist.
    #[error("the engine knows no such thing (`{call}`)")]
    Absent {
        /// Which call.
        call: &'static str,
        /// What the engine said.
        source: BollardError,
    },
    /// The thing the call would make exists.
    #[error("the engine has it already (`{call}`)")]
    Conflict {
        /// Which call.
        call: &'static str,
        /// What the engine said.
        source: BollardError,
    },
    /// A network has the name of one of ours and is not as ours are.
    #[error("the network {name} is not one that sandboxd made; remove it")]
    OtherNetwork {
        /// Its name.
        name: String,
    },
    /// The engine refused.
    #[error("the engine refused `{call}`")]
    Refused {
        /// Which call.
        call: &'static str,
        /// What the engine said.
        source: BollardError,
    },
    /// It answered something that is not an answer of an engine.
    #[error("the engine's answer to `{call}` cannot be read")]
    Malformed {
        /// Which call.
        call: &'static str,
        /// What is wrong with it.
        source: BollardError,
    },
    /// The engine tried and failed: it answered 5xx.
    #[error("the engine failed in `{call}`")]
    Failed {
        /// Which call.
        call: &'static str,
        /// What the engine said.
        source: BollardError,
    },
    /// The engine counts a mount of a volume that nothing has. One before 24 does after a restart with
    /// live-restore, until the next restart; nobody else can set the count right.
    #[error("the engine takes the volume {name} to be in use until it is restarted")]
    Miscounted {
        /// The volume.
        name: String,
    },
    /// The configured OCI runtime is not installed.
    #[error("the engine has no runtime {wanted:?}, only {}", known.join(", "))]
    UnknownOciRuntime {
        /// The configured one.
        wanted: String,
        /// Those that are.
        known: Vec<String>,
    },
    /// The sandbox image is missing and may not or cannot be made.
    #[error("the image {image} is missing; run `sandboxd build-image` (or `make image`)")]
    ImageMissing {
        /// Its tag.
        image: String,
    },
    /// The image's folder cannot be read.
    #[error("cannot read the image's folder {}", path.display())]
    ImageFolder {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The build went wrong; the engine's own words.
    #[error("building the image failed: {last_words}")]
    ImageBuild {
        /// The engine's last line.
        last_words: String,
    },
    /// No registry, no imported base image, and the script that makes one failed.
    #[error("cannot make the base image with {}", script.display())]
    BaseImage {
        /// The script.
        script: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Something could not be done with a disk, or with all of them.
    #[error("`{call}` failed for {}", if name.is_empty() { "the disks" } else { name })]
    Disk {
        /// What was to be done.
        call: &'static str,
        /// The disk's name; empty where it is not about one.
        name: String,
        /// Why it could not be done.
        source: DiskFault,
    },
    /// Files could not be copied from one container to another.
    #[error("the files could not be copied")]
    Copy {
        /// Why.
        source: std::io::Error,
    },
    /// The agent's program cannot be read.
    #[error("cannot read the agent's program {}", path.display())]
    AgentProgram {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
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
            // Its own limit is the longest of ours.
            BollardError::RequestTimeoutError => Self::Deadline { call, after: limits::ENGINE_CALL },
            // What a stream of the engine's says in its middle.
            BollardError::DockerStreamError { .. } | BollardError::DockerContainerWaitError { .. } => {
                Self::Failed { call, source }
            }
            _ if io_kind(&source).is_some() => Self::unreachable(address, source),
            _ => Self::Malformed { call, source },
        }
    }

    /// Whether the engine itself is away, rather than unwilling.
    pub fn is_away(&self) -> bool {
        matches!(
            self,
            Self::NoSocket { .. }
                | Self::NoPermission { .. }
                | Self::Unreachable { .. }
                | Self::NoAnswer { .. }
                | Self::Deadline { .. }
        )
    }

    /// Whether it is the engine's own trouble, which passes or is its operator's to mend, and no fault of what
    /// was asked for.
    pub fn is_temporary(&self) -> bool {
        let passes = |error: &Self| {
            matches!(error, Self::Failed { .. } | Self::Malformed { .. } | Self::ImageMissing { .. })
        };
        self.is_away() || passes(self)
    }

    /// Whether nothing follows from it but that the engine must be asked again.
    pub fn says_nothing(&self) -> bool {
        self.is_away() || matches!(self, Self::Malformed { .. })
    }

    /// Whether a start that met it is tried again: its cause may go while the daemon runs.
    pub fn may_pass(&self) -> bool {
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
            _ if self.is_away() => "away",
            _ => "other",
        }
    }

    /// What to do about it, where a person can do something.
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

/// The kind of the I/O error somewhere below; a connection refused or cut has one.
fn io_kind(error: &BollardError) -> Option<std::io::ErrorKind> {
    // It shows its cause's causes and not its cause.
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
