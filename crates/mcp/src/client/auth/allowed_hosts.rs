//! Hosts and networks that a login may lead to although they are not public: those of the configuration.

use std::net::IpAddr;

/// Names and networks; empty if only public addresses may be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AllowedHosts {
    names: Vec<AllowedName>,
    networks: Vec<(IpAddr, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedName {
    Exactly(String),
    /// Every name that ends with this, which begins with a dot.
    Below(String),
}

impl AllowedHosts {
    /// Of names such as `login.corp` and `*.corp`, addresses, and networks such as `10.0.0.0/8`, as the configuration checked them.
    pub(super) fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for entry in entries {
            match (network(entry), entry.strip_prefix('*')) {
                (Some(network), _) => all.networks.push(network),
                (None, Some(below)) => all.names.push(AllowedName::Below(below.to_ascii_lowercase())),
                (None, None) => all.names.push(AllowedName::Exactly(entry.to_ascii_lowercase())),
            }
        }
        all
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.names.iter().any(|allowed| match allowed {
            AllowedName::Exactly(exact) => *exact == name,
            AllowedName::Below(suffix) => name.ends_with(suffix.as_str()),
        })
    }

    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|(network, length)| match (network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                shares(network.to_bits().into(), address.to_bits().into(), 32, *length)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => shares(network.to_bits(), address.to_bits(), 128, *length),
            _ => false,
        })
    }
}

/// Whether two addresses of `width` bits share their first `length` ones.
fn shares(one: u128, other: u128, width: u32, length: u32) -> bool {
    (one ^ other).checked_shr(width.saturating_sub(length)).unwrap_or(0) == 0
}

fn network(entry: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = entry.split_once('/').map_or((entry, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(width), |length| length.parse().ok()).filter(|length| *length <= width)?;
    Some((address, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_networks_are_told_apart_and_matched() {
        let allowed =
            AllowedHosts::new(["login.corp", "*.inner.corp", "10.1.0.0/16", "fd00::/8", "127.0.0.1", "0.0.0.0/0"]);
        for (name, expected) in [
            ("login.corp", true),
            ("LOGIN.corp.", true),
            ("a.login.corp", false),
            ("a.inner.corp", true),
            ("inner.corp", false),
            ("xinner.corp", false),
        ] {
            assert_eq!(allowed.has_name(name), expected, "{name}");
        }
        let allowed = AllowedHosts::new(["10.1.0.0/16", "fd00::/8", "127.0.0.1"]);
        for (address, expected) in [
            ("10.1.255.1", true),
            ("::ffff:10.1.0.1", true),
            ("10.2.0.1", false),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("fdff::1", true),
            ("fe80::1", false),
        ] {
            assert_eq!(allowed.has_address(address.parse().unwrap()), expected, "{address}");
        }
        assert!(AllowedHosts::new(["0.0.0.0/0"]).has_address("9.9.9.9".parse().unwrap()));
        assert!(!AllowedHosts::default().has_address("10.0.0.1".parse().unwrap()));
    }
}
