//! The address of the engine.

use std::fmt;
use std::path::PathBuf;

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
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}
