//! This machine's addresses, and the networks that it is on.
//!
//! A host with a public address may be on the machine's own link, as in a local network with global IPv6. No host
//! outside can reach it, and no sandbox may. Interfaces change, so they are read for each decision.

use std::net::IpAddr;

use ipnet::IpNet;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::SockaddrStorage;

/// Shorter masks are not those of a link: whole providers have them, and tunnels for all addresses.
const SHORTEST_V4: u8 = 8;
const SHORTEST_V6: u8 = 32;

/// The interfaces of this machine.
#[derive(Debug)]
pub(super) struct Here {
    /// Addresses of the interfaces, with the lengths of their masks. `None` if the system does not report them.
    interfaces: Option<Vec<IpNet>>,
}

impl Here {
    pub(super) fn now() -> Self {
        Self {
            interfaces: getifaddrs().ok().map(|all| all.filter_map(|interface| net_of(&interface)).collect()),
        }
    }

    #[cfg(test)]
    pub(super) fn at(interfaces: &[&str]) -> Self {
        Self { interfaces: Some(interfaces.iter().map(|text| text.parse().unwrap()).collect()) }
    }

    /// Whether the address is this machine's. If the system does not report addresses, every address counts.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        let Some(interfaces) = &self.interfaces else { return true };
        address.is_loopback() || interfaces.iter().any(|own| own.addr() == address)
    }

    /// Whether the address is this machine's, or in a network that it is on.
    pub(super) fn is_near(&self, address: IpAddr) -> bool {
        let mut around = self.interfaces.iter().flatten().filter(|net| is_link(net));
        self.is_own(address) || around.any(|net| net.contains(&address))
    }
}

fn is_link(net: &IpNet) -> bool {
    net.prefix_len() >= if net.addr().is_ipv4() { SHORTEST_V4 } else { SHORTEST_V6 }
}

/// An interface with a meaningless mask counts as a single address.
fn net_of(interface: &InterfaceAddress) -> Option<IpNet> {
    let address = ip(interface.address.as_ref()?)?;
    let mask = interface.netmask.as_ref().and_then(ip);
    let net = mask.and_then(|mask| IpNet::with_netmask(address, mask).ok());
    Some(net.unwrap_or_else(|| address.into()))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_this_machine_are_local() {
        let here = Here::now();
        assert!(["127.0.0.1", "127.9.9.9", "::1"].iter().all(|own| here.is_own(parse(own))));
        assert!(!here.is_own(parse("198.51.100.99")) && !here.is_near(parse("198.51.100.99")));
        // The source address that the system would use is one of them.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("198.51.100.99:9").is_ok() {
            assert!(here.is_own(socket.local_addr().unwrap().ip()));
        }
    }

    #[test]
    fn the_masks_of_interfaces_are_read() {
        let loopback: IpNet = "127.0.0.1/8".parse().unwrap();
        assert!(Here::now().interfaces.unwrap().contains(&loopback));
    }

    #[test]
    fn hosts_on_attached_networks_are_near() {
        let here = Here::at(&["8.8.4.4/24", "2600:1::5/64", "9.9.9.9/32"]);
        for near in ["8.8.4.4", "8.8.4.77", "2600:1::9", "2600:1::ffff:1", "9.9.9.9"] {
            assert!(here.is_near(parse(near)), "{near}");
        }
        for far in ["8.8.5.4", "2600:1:0:1::9", "9.9.9.8", "1.1.1.1"] {
            assert!(!here.is_near(parse(far)), "{far}");
        }
        assert!(here.is_own(parse("8.8.4.4")) && !here.is_own(parse("8.8.4.77")));
    }

    #[test]
    fn implausibly_short_masks_are_ignored() {
        let here = Here::at(&["8.8.4.4/7", "2600:1::5/31", "0.0.0.0/0"]);
        assert!(here.is_near(parse("8.8.4.4")) && here.is_near(parse("2600:1::5")));
        assert!(!here.is_near(parse("8.8.4.5")) && !here.is_near(parse("2600:1::6")));
        assert!(Here::at(&["8.8.4.4/8"]).is_near(parse("8.9.9.9")));
    }

    #[test]
    fn without_interface_data_every_address_is_local() {
        assert!(Here { interfaces: None }.is_near(parse("8.8.8.8")));
    }
}
