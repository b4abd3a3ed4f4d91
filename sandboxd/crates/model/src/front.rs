//! Settings for a program in front of the daemon that has authenticated its users.

use std::net::IpAddr;

use http::HeaderName;
use ipnet::IpNet;

use crate::{AdminToken, ProjectName};

/// A trusted front: it sends its key, and names the user of each request in a header.
#[derive(Debug, Clone)]
pub struct FrontSettings {
    /// Its key.
    pub key: AdminToken,
    /// The addresses that it connects from. Not empty.
    pub addresses: Vec<IpNet>,
    /// The header with the subject.
    pub header: HeaderName,
    /// The project of its users.
    pub project: ProjectName,
}

impl FrontSettings {
    /// Whether it may connect from this address.
    pub fn is_at(&self, peer: IpAddr) -> bool {
        is_in(&self.addresses, peer)
    }
}

/// Whether an address is in one of the ranges. An IPv4 address may be written as IPv6 (RFC 4291 section 2.5.5.2).
pub fn is_in(ranges: &[IpNet], address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(&address.to_canonical()) || range.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_those_that_they_map() {
        let ranges = ["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        for (address, is_inside) in [
            ("192.0.2.7", true),
            ("::ffff:192.0.2.7", true),
            ("192.0.3.7", false),
            ("::ffff:192.0.3.7", false),
            ("2001:db8::7", true),
            ("2001:db9::7", false),
        ] {
            assert_eq!(is_in(&ranges, address.parse().unwrap()), is_inside, "{address}");
        }
    }
}
