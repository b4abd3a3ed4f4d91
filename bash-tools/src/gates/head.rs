//! What the gates read of a request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use http::Request;

/// The parts of a request that matter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) extensions: &'a http::Extensions,
    pub(super) uri: &'a http::Uri,
    pub(super) headers: &'a http::HeaderMap,
}

impl<'a> Head<'a> {
    pub(super) fn of<B>(request: &'a Request<B>) -> Self {
        Self { extensions: request.extensions(), uri: request.uri(), headers: request.headers() }
    }

    /// Address of the socket's peer. An IPv4 address in IPv6 form is converted.
    pub(super) fn peer(self) -> Option<IpAddr> {
        let ConnectInfo(address) = self.extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(address.ip().to_canonical())
    }

    /// Same, for counting. Requests without a peer address share one counter.
    pub(super) fn peer_or_unknown(self) -> IpAddr {
        self.peer().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}
