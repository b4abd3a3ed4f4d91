//! Where the engine is.

use std::fmt;
use std::path::PathBuf;

use bollard::{API_DEFAULT_VERSION, Docker};

use super::{Error, unix_transport};
use sandboxd_model::limits;

/// The engine's socket or TCP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAddress {
    /// A unix socket of this machine.
    Unix(PathBuf),
    /// `host:port`, plain HTTP.
    Tcp(String),
}

impl EngineAddress {
    /// The port of an engine that is reached over TCP.
    pub fn tcp_port(&self) -> Option<u16> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(address) => address.rsplit_once(':')?.1.parse().ok(),
        }
    }

    /// Prepares a client; nothing is sent yet.
    pub(super) fn open(&self) -> Result<Docker, Error> {
        let seconds = limits::ENGINE_CALL.as_secs();
        let docker = match self {
            Self::Unix(path) => {
                let path = path.clone();
                let transport = move |request| unix_transport::send(path.clone(), request);
                let origin = Some(unix_transport::ORIGIN);
                Docker::connect_with_custom_transport(transport, origin, seconds, API_DEFAULT_VERSION)
            }
            Self::Tcp(address) => {
                Docker::connect_with_http(&format!("tcp://{address}"), seconds, API_DEFAULT_VERSION)
            }
        };
        docker.map_err(|source| Error::unreachable(self, source))
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}
