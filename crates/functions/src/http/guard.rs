//! Decides which hosts and addresses may be reached.
//!
//! The guard *is* the resolver of the client: connections go to the addresses that it returns, and no name is resolved a
//! second time. If one address of a lookup is refused, all are: a name with public and private addresses is an attack or a
//! mistake, and using only the public ones would hide it.

use super::{AllowList, FetchError};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use toolgate_wire::addresses::{AddressClass, not_public};
use url::{Host, Url};

/// The future of a lookup.
pub type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolves host names. Its results are not trusted.
pub trait Resolver: Send + Sync + 'static {
    /// Resolves a name.
    fn lookup(&self, host: String) -> Lookup;
}

/// The operating system's resolver.
#[derive(Debug, Clone, Copy, Default)]
struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup(&self, host: String) -> Lookup {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|at| at.ip()).collect()) })
    }
}

/// A host that must not be reached. The text omits the address, which would reveal the structure of the network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} resolves to {class}, which is not allowed")]
pub struct RefusedHost {
    /// The host as the URL spells it.
    pub host: String,
    /// The class of its address.
    pub class: AddressClass,
}

/// The hosts that programs may reach at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Egress {
    /// Every public host, and those of the guard's exceptions.
    All,
    /// These hosts and networks; an address that is not public must also be an exception of the guard.
    Hosts(AllowList),
}

impl Egress {
    /// Whether a request to this host may be sent.
    pub fn permits(&self, host: Host<&str>) -> bool {
        match (self, host) {
            (Egress::All, _) => true,
            (Egress::Hosts(hosts), Host::Domain(name)) => hosts.trusts_host(name),
            (Egress::Hosts(hosts), Host::Ipv4(address)) => hosts.trusts_address(address.into()),
            (Egress::Hosts(hosts), Host::Ipv6(address)) => hosts.trusts_address(address.into()),
        }
    }
}

/// Checks the target of a request. Cheap to clone.
#[derive(Clone)]
pub struct Guard {
    egress: Arc<Egress>,
    allow: Arc<AllowList>,
    resolver: Arc<dyn Resolver>,
}

impl Guard {
    /// A guard with exceptions and the system's resolver.
    pub fn new(allow: AllowList) -> Self {
        Self::with_resolver(allow, Arc::new(SystemResolver))
    }

    /// A guard with another resolver.
    pub fn with_resolver(allow: AllowList, resolver: Arc<dyn Resolver>) -> Self {
        Self { egress: Arc::new(Egress::All), allow: Arc::new(allow), resolver }
    }

    /// The same guard for fewer hosts.
    #[must_use]
    pub fn with_egress(self, egress: Egress) -> Self {
        Self { egress: Arc::new(egress), ..self }
    }

    /// Checks the scheme, the absence of credentials, egress, and a literal address.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), FetchError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FetchError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchError::CredentialsInUrl);
        }
        if let Some(host) = url.host()
            && !self.egress.permits(host.clone())
        {
            return Err(FetchError::Egress(host.to_string()));
        }
        match url.host() {
            Some(Host::Ipv4(address)) => Ok(self.check_address(&address.to_string(), address.into())?),
            Some(Host::Ipv6(address)) => Ok(self.check_address(&format!("[{address}]"), address.into())?),
            Some(Host::Domain(name)) if !name.is_empty() => Ok(()),
            Some(Host::Domain(_)) | None => Err(FetchError::Url("it has no host".to_owned())),
        }
    }

    fn check_address(&self, host: &str, address: IpAddr) -> Result<(), RefusedHost> {
        match not_public(address) {
            Some(class) if !self.allow.trusts_address(address) => Err(RefusedHost { host: host.to_owned(), class }),
            Some(_) | None => Ok(()),
        }
    }

    /// The addresses for a connection: all addresses of the lookup, or an error.
    async fn resolve(&self, host: String) -> Result<Vec<IpAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let addresses = self.resolver.lookup(host.clone()).await?;
        if !self.allow.trusts_host(&host) {
            addresses.iter().try_for_each(|address| self.check_address(&host, *address))?;
        }
        if addresses.is_empty() {
            return Err(Box::new(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
        }
        Ok(addresses)
    }
}

impl reqwest::dns::Resolve for Guard {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.resolve(name.as_str().to_owned()).await?;
            // Port 0 means the port of the URL.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as reqwest::dns::Addrs)
        })
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("allow", &self.allow).finish_non_exhaustive()
    }
}
