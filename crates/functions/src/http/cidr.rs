//! A block of IP addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A block of IP addresses such as `10.0.0.0/8`. An IPv4 block holds no IPv6 address and the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// An address of the block. Bits below the prefix are ignored.
    network: IpAddr,
    prefix: u8,
}

/// The text is no block of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address block such as 10.0.0.0/8 or fd00::/8")]
pub struct BadCidr(String);

impl Cidr {
    /// Whether the address lies in the block, exactly as spelled: `::ffff:10.0.0.1` does not lie in `10.0.0.0/8`.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = u32::from(network) ^ u32::from(address);
                differing.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = u128::from(network) ^ u128::from(address);
                differing.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl From<IpAddr> for Cidr {
    fn from(network: IpAddr) -> Self {
        Self { network, prefix: if network.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Cidr {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let bad = || BadCidr(text.chars().take(64).collect());
        let (network, prefix) = match text.split_once('/') {
            Some((network, prefix)) => (network, Some(prefix)),
            None => (text, None),
        };
        let whole = Self::from(network.parse::<IpAddr>().map_err(|_| bad())?);
        let Some(prefix) = prefix else { return Ok(whole) };
        // `u8::from_str` would take a sign.
        let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix = prefix.parse::<u8>().ok().filter(|prefix| digits && *prefix <= whole.prefix).ok_or_else(bad)?;
        Ok(Self { prefix, ..whole })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(block: &str, address: &str, expected: bool) {
        let block: Cidr = block.parse().expect("a block");
        assert_eq!(block.contains(address.parse().expect("an address")), expected, "{address} in {block}");
    }

    #[test]
    fn a_block_holds_what_shares_its_prefix() {
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.0", false);
        check("172.16.0.0/12", "172.31.255.255", true);
        check("172.16.0.0/12", "172.32.0.0", false);
        check("192.0.2.7", "192.0.2.7", true);
        check("192.0.2.7", "192.0.2.8", false);
        check("0.0.0.0/0", "255.255.255.255", true);
        check("fc00::/7", "fdff::1", true);
        check("fc00::/7", "fe00::1", false);
        check("::/0", "ff02::1", true);
        check("::1", "::1", true);
    }

    #[test]
    fn families_do_not_mix() {
        check("0.0.0.0/0", "::ffff:1.2.3.4", false);
        check("::/0", "1.2.3.4", false);
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for text in
            ["", "/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "example.com/8", "1.2.3.4/8/8"]
        {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
