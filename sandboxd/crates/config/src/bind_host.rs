//! The address that the API listens on.

use std::net::IpAddr;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindHost {
    /// As the operator wrote it.
    pub text: String,
    /// The parsed address.
    pub address: IpAddr,
}
