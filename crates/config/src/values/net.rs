//! URLs, hosts, networks and origins.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::{Value as Json, json};
use url::Url;

use super::Setting;

/// An http or https URL. Printed as its origin only, because user, path and query may be secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// The whole URL.
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.origin().ascii_serialization())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self}/…)")
    }
}

impl Setting for Endpoint {
    fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).map_err(|error| format!("must be a URL: {error}"))?;
        match url.scheme() {
            "http" | "https" => Ok(Self(url)),
            other => Err(format!("must be an http or https URL, not {other}")),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^\s*[Hh][Tt][Tt][Pp][Ss]?:"})
    }
}

impl Setting for SocketAddr {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().replace("localhost:", "127.0.0.1:");
        text.parse().map_err(|_| "must be an address and port, such as 127.0.0.1:7878 or [::1]:7878".to_owned())
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r":[0-9]+\s*$"})
    }
}

/// Parses an address or a network in CIDR notation.
///
/// The standard library parses the address: `ipnet` would read `010.0.0.0/8`, which other programs take for octal.
fn parse_network(text: &str) -> Option<IpNet> {
    let address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    match text.split_once('/') {
        Some((network, prefix)) => IpNet::new(address(network)?, prefix.parse().ok()?).ok(),
        None => address(text).map(IpNet::from),
    }
}

/// A host name in lower case, or `*.` and a name for all its subdomains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    name: String,
    below: bool,
}

impl HostName {
    /// Whether a host name without port matches, ignoring case.
    pub fn matches(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        match host.strip_suffix(&self.name) {
            Some("") => !self.below,
            Some(rest) => self.below && rest.ends_with('.'),
            None => false,
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)
    }
}

impl Setting for HostName {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "must be a host name, such as api.example.com or *.example.com".to_owned();
        let text = text.trim();
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |rest| (rest, true));
        if name.is_empty()
            || name.contains(['/', '@', '*', '?', '#', ' '])
            || (name.contains(':') && !name.starts_with('['))
        {
            return Err(wrong());
        }
        match url::Host::parse(name.trim_end_matches('.')) {
            Ok(host) => Ok(Self { name: host.to_string().to_ascii_lowercase(), below }),
            Err(_) => Err(wrong()),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^\s*(\*\.)?[^\s/@*?#]+\s*$"})
    }
}

/// An exception from the guard of outgoing HTTP, which blocks private addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// A host by name.
    Host(HostName),
    /// An address or a network.
    Net(IpNet),
}

impl Setting for Allowed {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(network) = parse_network(text.trim()) {
            return Ok(Self::Net(network));
        }
        HostName::parse(text).map(Self::Host).map_err(|_| {
            "must be a host, such as intranet.example or *.example.com, or a network, such as 10.0.0.0/8".to_owned()
        })
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^\s*[^\s@?#]+\s*$"})
    }
}

/// The origin of a web page, such as `https://app.example.com`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin(String);

impl Origin {
    /// As browsers send it in `Origin`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for Origin {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "must be an origin, such as https://app.example.com or http://localhost:3000".to_owned();
        let url = Url::parse(text.trim()).map_err(|_| wrong())?;
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        match url.scheme() {
            "http" | "https" if bare => Ok(Self(url.origin().ascii_serialization())),
            _ => Err(wrong()),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^\s*[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+/?\s*$"})
    }
}

/// The session store.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreSetting {
    /// In this process.
    Memory,
    /// In a Redis server that several gateways share.
    Redis(Url),
    /// Sessions in this process; durable runs in a PostgreSQL database that several gateways share.
    Postgres(Url),
}

impl fmt::Debug for StoreSetting {
    // A Redis URL may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("Memory"),
            Self::Redis(url) => {
                write!(f, "Redis({}:{})", url.host_str().unwrap_or_default(), url.port().unwrap_or(6379))
            }
            Self::Postgres(url) => write!(f, "Postgres({})", shown_database(url)),
        }
    }
}

/// Host and port without user and password.
fn shown_database(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port().unwrap_or(5432))
}

fn is_postgres(url: &Url) -> bool {
    matches!(url.scheme(), "postgres" | "postgresql")
}

/// Where durable runs are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum RunStorePlace {
    /// In an SQLite file: as written.
    File(String),
    /// In a PostgreSQL database.
    Postgres(Url),
}

impl fmt::Debug for RunStorePlace {
    // A URL may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({path})"),
            Self::Postgres(url) => write!(f, "Postgres({})", shown_database(url)),
        }
    }
}

impl Setting for RunStorePlace {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match Url::parse(text) {
            Ok(url) if is_postgres(&url) => Ok(Self::Postgres(url)),
            Ok(url) if text.contains("://") => {
                Err(format!("must be a file or a postgres:// URL, and {}:// is neither", url.scheme()))
            }
            _ if text.is_empty() => {
                Err("must be a file or a URL such as postgres://user@127.0.0.1/toolgate".to_owned())
            }
            _ => Ok(Self::File(text.to_owned())),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"\S"})
    }
}

impl Setting for StoreSetting {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "memory" {
            return Ok(Self::Memory);
        }
        match Url::parse(text) {
            Ok(url) if url.scheme() == "redis" && url.has_host() => Ok(Self::Redis(url)),
            Ok(url) if url.scheme() == "rediss" => {
                Err("must be a redis:// URL: this build does not support Redis over TLS (rediss://)".to_owned())
            }
            Ok(url) if is_postgres(&url) => Ok(Self::Postgres(url)),
            _ => Err("must be memory or a URL such as redis://127.0.0.1:6379/0".to_owned()),
        }
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": r"^\s*(memory|([Rr][Ee][Dd][Ii][Ss]|[Pp][Oo][Ss][Tt][Gg][Rr][Ee][Ss]([Qq][Ll])?)://.+)\s*$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(network: &str, address: &str, inside: bool) {
        let Allowed::Net(parsed) = Allowed::parse(network).unwrap() else { panic!("{network} is no network") };
        assert_eq!(parsed.contains(&address.parse::<IpAddr>().unwrap()), inside, "{address} in {network}");
    }

    #[test]
    fn an_address_with_leading_zeros_is_no_network() {
        assert!(!matches!(Allowed::parse("010.0.0.0/8"), Ok(Allowed::Net(_))));
    }

    #[test]
    fn a_network_contains_the_addresses_of_its_prefix() {
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("0.0.0.0/0", "203.0.113.9", true);
        check("::/0", "203.0.113.9", false);
        check("192.168.1.7", "192.168.1.7", true);
        check("192.168.1.7", "192.168.1.8", false);
        check("fd00::/8", "fdff::1", true);
        check("[::1]", "::1", true);
        check("10.0.0.0/8", "::ffff:10.0.0.1", false);
    }

    #[test]
    fn a_star_stands_for_the_names_below() {
        let host = HostName::parse("*.Example.com").unwrap();
        assert!(host.matches("api.example.COM") && host.matches("a.b.example.com."));
        assert!(!host.matches("example.com") && !host.matches("badexample.com"));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let url = Endpoint::parse("https://user:pw@h.example/token?key=k").unwrap();
        assert_eq!(format!("{url:?}"), "Endpoint(https://h.example/…)");
        let store = StoreSetting::parse("redis://:pw@h.example").unwrap();
        assert_eq!(format!("{store:?}"), "Redis(h.example:6379)");
        let store = StoreSetting::parse("postgres://u:pw@h.example/db").unwrap();
        assert_eq!(format!("{store:?}"), "Postgres(h.example:5432)");
        let store = RunStorePlace::parse("postgresql://u:pw@h.example:5433/db").unwrap();
        assert_eq!(format!("{store:?}"), "Postgres(h.example:5433)");
    }
}
