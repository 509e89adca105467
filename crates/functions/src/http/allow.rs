//! The configured exceptions of the guard: hosts and networks that may be reached although they are not public.
//!
//! A host entry allows every address that the name resolves to; a network entry allows its addresses under any name.
//! Families do not mix: `10.0.0.0/8` does not allow `::ffff:10.0.0.1`.

use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use toolgate_wire::foreign_text::clipped;
use url::Host;

/// Hosts and networks that the guard allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    networks: Vec<IpNet>,
    hosts: BTreeSet<String>,
    /// `.example.com` for `*.example.com`.
    suffixes: Vec<String>,
}

/// An entry that is neither a host nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` must be a host name, `*.` and a host name, an address or a network such as 10.0.0.0/8")]
pub struct BadAllowEntry(pub String);

impl AllowList {
    /// No exceptions.
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses entries such as `10.1.0.0/16`, `::1`, `metrics.internal` and `*.corp.example`; reports all invalid ones.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, Vec<BadAllowEntry>> {
        let mut list = Self::default();
        let bad: Vec<_> = entries.iter().filter_map(|entry| list.add(entry.as_ref()).err()).collect();
        if bad.is_empty() { Ok(list) } else { Err(bad) }
    }

    fn add(&mut self, entry: &str) -> Result<(), BadAllowEntry> {
        let bad = || BadAllowEntry(clipped(entry, 128).into_owned());
        if let Some(network) = parse_network(entry) {
            self.networks.push(network);
            return Ok(());
        }
        let (name, wild) = entry.strip_prefix("*.").map_or((entry, false), |rest| (rest, true));
        match Host::parse(name).map_err(|_| bad())? {
            Host::Domain(name) if wild => self.suffixes.push(format!(".{}", plain(&name))),
            Host::Domain(name) if !name.contains('*') => drop(self.hosts.insert(plain(&name).to_owned())),
            Host::Ipv4(address) if !wild => self.networks.push(IpAddr::V4(address).into()),
            Host::Ipv6(address) if !wild => self.networks.push(IpAddr::V6(address).into()),
            Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => return Err(bad()),
        }
        Ok(())
    }

    /// Whether a host name may resolve to any address.
    pub(super) fn trusts_host(&self, host: &str) -> bool {
        let host = plain(host);
        self.hosts.contains(host) || self.suffixes.iter().any(|suffix| host.ends_with(suffix.as_str()))
    }

    /// Whether an address is allowed under any name.
    pub(super) fn trusts_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// Parses an address or a network in CIDR notation, as strictly as the standard library parses addresses: no leading
/// zeros, which other programs take for octal, and no sign before the prefix length.
fn parse_network(text: &str) -> Option<IpNet> {
    let Some((network, prefix)) = text.split_once('/') else { return text.parse::<IpAddr>().ok().map(IpNet::from) };
    let digits = prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix = prefix.parse().ok().filter(|_| digits)?;
    IpNet::new(network.parse().ok()?, prefix).ok()
}

/// Removes the trailing dot of a fully qualified name.
fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_network(network: &str, address: &str, expected: bool) {
        let network = parse_network(network).expect("a network");
        assert_eq!(
            network.contains(&address.parse::<IpAddr>().expect("an address")),
            expected,
            "{address} in {network}"
        );
    }

    #[test]
    fn a_network_contains_the_addresses_of_its_prefix() {
        check_network("10.0.0.0/8", "10.255.0.1", true);
        check_network("10.0.0.0/8", "11.0.0.0", false);
        check_network("10.9.9.9/8", "10.0.0.1", true);
        check_network("172.16.0.0/12", "172.31.255.255", true);
        check_network("172.16.0.0/12", "172.32.0.0", false);
        check_network("192.0.2.7", "192.0.2.7", true);
        check_network("192.0.2.7", "192.0.2.8", false);
        check_network("0.0.0.0/0", "255.255.255.255", true);
        check_network("fc00::/7", "fdff::1", true);
        check_network("fc00::/7", "fe00::1", false);
        check_network("::/0", "ff02::1", true);
        check_network("::1", "::1", true);
    }

    #[test]
    fn families_do_not_mix() {
        check_network("0.0.0.0/0", "::ffff:1.2.3.4", false);
        check_network("::/0", "1.2.3.4", false);
    }

    #[test]
    fn an_invalid_network_is_rejected() {
        for text in [
            "",
            "/8",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0/8",
            "010.0.0.0/8",
            "example.com/8",
            "1.2.3.4/8/8",
        ] {
            assert_eq!(parse_network(text), None, "{text}");
        }
    }

    fn check_host(entry: &str, host: &str, expected: bool) {
        let list = AllowList::parse(&[entry]).expect("a good entry");
        assert_eq!(list.trusts_host(host), expected, "{host} by {entry}");
    }

    #[test]
    fn a_host_entry_is_that_name_and_no_other() {
        check_host("metrics.internal", "metrics.internal", true);
        check_host("Metrics.Internal.", "metrics.internal", true);
        check_host("metrics.internal", "metrics.internal.", true);
        check_host("metrics.internal", "a.metrics.internal", false);
        check_host("metrics.internal", "xmetrics.internal", false);
    }

    #[test]
    fn a_star_stands_for_names_below_and_not_for_the_name_itself() {
        check_host("*.corp.example", "a.corp.example", true);
        check_host("*.corp.example", "a.b.corp.example", true);
        check_host("*.corp.example", "corp.example", false);
        check_host("*.corp.example", "evilcorp.example", false);
        check_host("*.corp.example", "a.corp.example.evil.test", false);
    }

    #[test]
    fn an_address_entry_trusts_addresses_and_no_names() {
        let list = AllowList::parse(&["127.0.0.1", "[::1]", "10.0.0.0/8", "fd00::/8"]).expect("good entries");
        for trusted in ["127.0.0.1", "::1", "10.9.8.7", "fd12::1"] {
            assert!(list.trusts_address(trusted.parse().expect("an address")), "{trusted}");
        }
        for other in ["127.0.0.2", "::2", "11.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"] {
            assert!(!list.trusts_address(other.parse().expect("an address")), "{other}");
        }
        assert!(!list.trusts_host("127.0.0.1"));
    }

    #[test]
    fn all_bad_entries_are_reported_at_once() {
        let bad = AllowList::parse(&["ok.example", "*", "a b", "10.0.0.0/99", "*.10.0.0.1", "http://x/", "a.*.b"]);
        let names: Vec<_> = bad.expect_err("six are bad").into_iter().map(|entry| entry.0).collect();
        assert_eq!(names, ["*", "a b", "10.0.0.0/99", "*.10.0.0.1", "http://x/", "a.*.b"]);
    }
}
