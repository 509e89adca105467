//! Classifies addresses as public or special-purpose, by IANA's registries.
//!
//! For IPv6 only global unicast (`2000::/3`) is public, so that unassigned blocks and all embeddings of IPv4 addresses are
//! rejected without a list. Within it the tunnels (6to4, Teredo) are rejected, because they lead to an unchecked IPv4
//! address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// "This host", `0.0.0.0/8` and `::`.
    Unspecified,
    /// This machine.
    Loopback,
    /// A private network: RFC 1918, unique local, site-local.
    Private,
    /// Carrier-grade NAT, `100.64.0.0/10`.
    SharedNat,
    /// Link-local, including cloud metadata services.
    LinkLocal,
    /// A service of a cloud platform on an address that looks public.
    CloudPlatform,
    /// Multicast.
    Multicast,
    /// An IPv4 address written as IPv6: mapped, compatible or translated.
    EmbeddedIpv4,
    /// Translated to an IPv4 address by the network (NAT64).
    Nat64,
    /// A tunnel to an IPv4 address: 6to4, Teredo.
    Tunnel,
    /// For examples and benchmarks.
    Documentation,
    /// Reserved or not assigned.
    Reserved,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified",
            Self::Loopback => "a loopback",
            Self::Private => "a private",
            Self::SharedNat => "a carrier NAT",
            Self::LinkLocal => "a link-local",
            Self::CloudPlatform => "a cloud platform",
            Self::Multicast => "a multicast",
            Self::EmbeddedIpv4 => "an IPv4-in-IPv6",
            Self::Nat64 => "a NAT64",
            Self::Tunnel => "a tunnel",
            Self::Documentation => "a documentation or benchmark",
            Self::Reserved => "a reserved",
        })?;
        f.write_str(" address")
    }
}

/// The class of an address that is not public; `None` for a public one.
pub fn not_public(address: IpAddr) -> Option<AddressClass> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> Option<AddressClass> {
    use AddressClass::*;
    Some(match address.octets() {
        [0, ..] => Unspecified,
        [127, ..] => Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Private,
        [100, 64..=127, ..] => SharedNat,
        [169, 254, ..] => LinkLocal,
        // Azure's host agent and resolver, reachable from every machine there.
        [168, 63, 129, 16] => CloudPlatform,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18..=19, ..] => Documentation,
        // 192.0.0.0/24: protocol assignments, among them a cloud's metadata service. 192.88.99.0/24: the old 6to4 relays.
        [192, 0, 0, _] => Reserved,
        [192, 88, 99, _] => Tunnel,
        [224..=239, ..] => Multicast,
        [240..=255, ..] => Reserved,
        _ => return None,
    })
}

fn v6(address: Ipv6Addr) -> Option<AddressClass> {
    use AddressClass::*;
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Loopback,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => EmbeddedIpv4,
        [0x64, 0xff9b, ..] => Nat64,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Private,
        [0xfe80..=0xfebf, ..] => LinkLocal,
        [0xff00..=0xffff, ..] => Multicast,
        [0x2002, ..] | [0x2001, 0, ..] => Tunnel,
        [0x2001, 0xdb8, ..] | [0x2001, 2, 0, ..] | [0x3fff, 0..=0xfff, ..] => Documentation,
        // Protocol assignments, 2001::/23.
        [0x2001, 1..=0x1ff, ..] => Reserved,
        [0x2000..=0x3fff, ..] => return None,
        _ => Reserved,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressClass::*;

    fn check(address: &str, expected: Option<AddressClass>) {
        assert_eq!(not_public(address.parse().expect("an address")), expected, "{address}");
    }

    #[test]
    fn public_addresses_are_public() {
        for address in
            ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0"]
        {
            check(address, None);
        }
        for address in
            ["192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "169.253.255.255", "168.63.129.17"]
        {
            check(address, None);
        }
        for address in ["2606:4700:4700::1111", "2001:4860:4860::8888", "2001:200::1", "2a00:1450::1", "3ffe::1"] {
            check(address, None);
        }
    }

    #[test]
    fn every_special_ipv4_block_is_refused_from_its_first_to_its_last_address() {
        for (first, last, class) in [
            ("0.0.0.0", "0.255.255.255", Unspecified),
            ("10.0.0.0", "10.255.255.255", Private),
            ("100.64.0.0", "100.127.255.255", SharedNat),
            ("127.0.0.0", "127.255.255.255", Loopback),
            ("169.254.0.0", "169.254.255.255", LinkLocal),
            ("172.16.0.0", "172.31.255.255", Private),
            ("192.0.0.0", "192.0.0.255", Reserved),
            ("192.0.2.0", "192.0.2.255", Documentation),
            ("192.88.99.0", "192.88.99.255", Tunnel),
            ("192.168.0.0", "192.168.255.255", Private),
            ("198.18.0.0", "198.19.255.255", Documentation),
            ("198.51.100.0", "198.51.100.255", Documentation),
            ("203.0.113.0", "203.0.113.255", Documentation),
            ("224.0.0.0", "239.255.255.255", Multicast),
            ("240.0.0.0", "255.255.255.255", Reserved),
            ("168.63.129.16", "168.63.129.16", CloudPlatform),
        ] {
            check(first, Some(class));
            check(last, Some(class));
        }
    }

    #[test]
    fn every_special_ipv6_block_is_refused() {
        for (address, class) in [
            ("::", Unspecified),
            ("::1", Loopback),
            ("::127.0.0.1", EmbeddedIpv4),
            ("::ffff:8.8.8.8", EmbeddedIpv4),
            ("::ffff:0:127.0.0.1", EmbeddedIpv4),
            ("64:ff9b::7f00:1", Nat64),
            ("64:ff9b:1::a00:1", Nat64),
            ("100::1", Reserved),
            ("1fff::1", Reserved),
            ("4000::1", Reserved),
            ("5f00::1", Reserved),
            ("2001::1", Tunnel),
            ("2001:2::1", Documentation),
            ("2001:10::1", Reserved),
            ("2001:20::1", Reserved),
            ("2001:1ff::1", Reserved),
            ("2001:db8::1", Documentation),
            ("2002:7f00:1::", Tunnel),
            ("3fff::1", Documentation),
            ("fc00::1", Private),
            ("fd00:ec2::254", Private),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("fec0::1", Private),
            ("feff::1", Private),
            ("ff02::1", Multicast),
        ] {
            check(address, Some(class));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_ipv6_spelling_of_an_ipv4_address_is_public(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let [a, b] = [(bits >> 16) as u16, bits as u16];
            for address in [
                v4.to_ipv6_mapped(),
                v4.to_ipv6_compatible(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 0),
                Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, !a, !b),
            ] {
                proptest::prop_assert!(not_public(address.into()).is_some(), "{}", address);
            }
        }
    }
}
