//! Which addresses are on the public internet.
//!
//! The excluded ranges are those of IANA's special-purpose registries (RFC 6890 and its successors) that are not
//! globally reachable. The range 203.0.113.0/24 is not excluded. It is for documentation and has no public hosts,
//! and closed networks use it for mirrors of public hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const NOT_PUBLIC_V4: [Ipv4Net; 15] = [
    // This host, this network.
    v4(0, 0, 0, 8),
    v4(10, 0, 0, 8),
    // Carrier-grade NAT.
    v4(100, 64, 0, 10),
    v4(127, 0, 0, 8),
    // Link-local, including the metadata services of clouds.
    v4(169, 254, 0, 16),
    v4(172, 16, 0, 12),
    // IETF protocol assignments, including the metadata services of clouds.
    v4(192, 0, 0, 24),
    v4(192, 0, 2, 24),
    // 6to4 relays.
    v4(192, 88, 99, 24),
    v4(192, 168, 0, 16),
    // Benchmarking.
    v4(198, 18, 0, 15),
    v4(198, 51, 100, 24),
    // Multicast.
    v4(224, 0, 0, 4),
    // Reserved, and broadcast.
    v4(240, 0, 0, 4),
    // Azure's metadata and name service, which has an address in a public range.
    Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The range of global unicast addresses. Addresses outside of it embed an IPv4 address (mapped, compatible,
/// NAT64), are local, or are multicast.
const GLOBAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    // IETF protocol assignments, including Teredo, which embeds an IPv4 address.
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4, which embeds an IPv4 address.
    Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether the address is that of a host on the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|range| range.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|range| range.contains(&address))
        }
    }
}

/// Whether `SANDBOXD_EGRESS_ALLOW_CIDR` can open the address: it is the address of one host, and not an IPv4 address
/// that is embedded in an IPv6 address.
pub(super) fn can_be_opened(address: IpAddr) -> bool {
    let is_one_host = !address.is_unspecified() && !address.is_multicast();
    match address {
        IpAddr::V4(address) => is_one_host && !address.is_broadcast() && address.octets()[0] != 0,
        IpAddr::V6(address) => is_one_host && address.to_ipv4().is_none_or(|_| address.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn reserved_addresses_are_not_public() {
        let not_public = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.169.254",
            "169.254.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::10.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ];
        for address in not_public {
            assert!(!is_public(parse(address)), "{address}");
        }
    }

    #[test]
    fn addresses_next_to_reserved_ranges_are_public() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "203.0.113.7",
            "223.255.255.255",
            "168.63.129.15",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2606:4700::1111",
            "2a00:1450::1",
        ];
        for address in public {
            assert!(is_public(parse(address)), "{address}");
        }
    }

    #[test]
    fn only_the_address_of_one_host_can_be_opened() {
        for address in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "fe80::1"] {
            assert!(can_be_opened(parse(address)), "{address}");
        }
        let never = [
            "0.0.0.0",
            "0.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::a00:1",
        ];
        for address in never {
            assert!(!can_be_opened(parse(address)), "{address}");
        }
    }

    proptest! {
        /// Compares with the special ranges that the standard library knows.
        #[test]
        fn addresses_that_the_standard_library_calls_special_are_not_public(bits: u32, high: u64, low: u64) {
            let v4 = Ipv4Addr::from_bits(bits);
            let other = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_unspecified();
            prop_assert!(!(other && is_public(v4.into())), "{v4}");
            prop_assert!(!is_public(v4.to_ipv6_mapped().into()) && !is_public(v4.to_ipv6_compatible().into()));
            let v6 = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
            let other = v6.is_loopback() || v6.is_multicast() || v6.is_unique_local() || v6.is_unicast_link_local();
            prop_assert!(!(other && is_public(v6.into())), "{v6}");
        }
    }
}
