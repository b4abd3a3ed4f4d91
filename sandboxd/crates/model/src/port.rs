//! What listens in a sandbox, and what a sandbox wants to be connected to.

use std::net::IpAddr;

/// What listens on TCP in a sandbox, as of when it was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListeningPorts {
    /// By port.
    pub ports: Vec<ListeningPort>,
    /// There are more, or not every process could be looked at.
    pub truncated: bool,
}

/// One socket that listens. A port can have several, of different addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningPort {
    /// From 1.
    pub port: u16,
    /// What it is bound to; all zeros is every address.
    pub address: IpAddr,
    /// Whose it is; `None` where that was not found.
    pub process: Option<PortProcess>,
}

/// A process of a sandbox, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortProcess {
    /// Its number in the sandbox.
    pub pid: i32,
    /// What the kernel calls it, at most [`MAX_PROCESS_NAME_BYTES`](super::limits::MAX_PROCESS_NAME_BYTES).
    pub name: String,
}

/// How a process of a sandbox asked for a connection to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// HTTP's CONNECT.
    Connect,
    /// An HTTP request with a whole URL. The proxy inside speaks HTTP/1 on the connection.
    Http,
    /// SOCKS5.
    Socks,
}

/// Why a sandbox is not connected to what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedReason {
    /// It may not reach it.
    Policy,
    /// There is no such name.
    NameNotFound,
    /// There is no way to it.
    Unreachable,
    /// The host itself refused.
    ByPeer,
    /// The host, or the search for it, took too long.
    Timeout,
    /// As many connections as may be, or as much as may be carried.
    Limit,
    /// Not a host or port that can be connected to.
    Invalid,
}
