//! Listening ports of a sandbox, and its outbound connections.

use std::net::IpAddr;

/// The TCP ports that are listening in a sandbox at the time of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListeningPorts {
    /// Sockets in the order of their ports.
    pub ports: Vec<ListeningPort>,
    /// Whether there are more, or a process could not be inspected.
    pub truncated: bool,
}

/// A listening socket. A port can have several, with different addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningPort {
    /// From 1.
    pub port: u16,
    /// Address that the socket is bound to. All zeros means every address.
    pub address: IpAddr,
    /// Owner of the socket; `None` if it was not found.
    pub process: Option<PortProcess>,
}

/// A process of a sandbox. The process chooses its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortProcess {
    /// Process id in the sandbox.
    pub pid: i32,
    /// Name that the kernel reports, at most [`MAX_PROCESS_NAME_BYTES`](super::limits::MAX_PROCESS_NAME_BYTES).
    pub name: String,
}

/// How a process of a sandbox requested an outbound connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// HTTP's CONNECT.
    Connect,
    /// An HTTP request with an absolute URL. The proxy in the sandbox speaks HTTP/1 on the connection.
    Http,
    /// SOCKS5.
    Socks,
}

/// Why an outbound connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedReason {
    /// The policy does not permit it.
    Policy,
    /// The name does not exist.
    NameNotFound,
    /// The host cannot be reached.
    Unreachable,
    /// The host refused the connection.
    ByPeer,
    /// The look-up or the connection took too long.
    Timeout,
    /// The limit of connections or traffic was reached.
    Limit,
    /// The host or port is invalid.
    Invalid,
}
