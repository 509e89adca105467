//! The user's exceptions: hosts and address blocks that may be reached although they are not public.
//!
//! A host entry trusts whatever that name resolves to; an address entry trusts those addresses under any name. Nothing is
//! implied: allowing `10.0.0.0/8` does not allow `::ffff:10.0.0.1`.

use super::Cidr;
use std::collections::BTreeSet;
use std::net::IpAddr;
use url::Host;

/// Hosts and address blocks that the guard lets pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    blocks: Vec<Cidr>,
    hosts: BTreeSet<String>,
    /// `.example.com` for `*.example.com`.
    suffixes: Vec<String>,
}

/// An entry that is neither a host nor an address block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a host name, `*.` and a host name, an address nor an address block")]
pub struct BadAllowEntry(pub String);

impl AllowList {
    /// Nothing but public addresses.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads entries such as `10.1.0.0/16`, `::1`, `metrics.internal` and `*.corp.example`; all bad ones are reported at once.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, Vec<BadAllowEntry>> {
        let mut list = Self::default();
        let bad: Vec<_> = entries.iter().filter_map(|entry| list.add(entry.as_ref()).err()).collect();
        if bad.is_empty() { Ok(list) } else { Err(bad) }
    }

    fn add(&mut self, entry: &str) -> Result<(), BadAllowEntry> {
        let bad = || BadAllowEntry(entry.chars().take(128).collect());
        if let Ok(block) = entry.parse::<Cidr>() {
            self.blocks.push(block);
            return Ok(());
        }
        let (name, wild) = entry.strip_prefix("*.").map_or((entry, false), |rest| (rest, true));
        match Host::parse(name).map_err(|_| bad())? {
            Host::Domain(name) if wild => self.suffixes.push(format!(".{}", plain(&name))),
            Host::Domain(name) if !name.contains('*') => drop(self.hosts.insert(plain(&name).to_owned())),
            Host::Ipv4(address) if !wild => self.blocks.push(IpAddr::V4(address).into()),
            Host::Ipv6(address) if !wild => self.blocks.push(IpAddr::V6(address).into()),
            Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => return Err(bad()),
        }
        Ok(())
    }

    /// Whether a host name, as a URL spells it, may lead anywhere.
    pub(super) fn trusts_host(&self, host: &str) -> bool {
        let host = plain(host);
        self.hosts.contains(host) || self.suffixes.iter().any(|suffix| host.ends_with(suffix.as_str()))
    }

    /// Whether an address may be reached under any name.
    pub(super) fn trusts_address(&self, address: IpAddr) -> bool {
        self.blocks.iter().any(|block| block.contains(address))
    }
}

/// A name without the dot that marks it as complete: both spellings are one name.
fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
