//! Requests to URLs that a server or a document named: bounded in size and time, without redirects, to permitted addresses.
//!
//! A hostile server can name any URL. So a server at a public address can lead to public addresses only; one that the user
//! configured at an inner address may name inner ones. Only HTTPS, except to this machine. The resolver of the client is
//! the guard: connections go to the addresses that it checked.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use toolgate_wire::ByteBudget;
use toolgate_wire::addresses::not_public;

use super::AuthError;
use super::allowed_hosts::AllowedHosts;
use crate::buffer::Buffer;
use crate::json_text::{self, JsonText};
use toolgate_wire::foreign_text::one_line;

/// The largest document or answer that is read.
pub(super) const MAX_DOCUMENT_BYTES: usize = 256 << 10;
/// How long one exchange may take.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// The most characters of a refusal that are shown.
const MAX_REFUSAL_CHARS: usize = 200;

const INNER_ADDRESS: &str =
    "it leads to an inner address; if it is meant, add it to `allowHosts` of the server's `auth`";
const INNER_NAME: &str =
    "the name leads to an inner address; if it is meant, add it to `allowHosts` of the server's `auth`";

/// Which addresses may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRule {
    /// Public ones.
    Public,
    /// All, because the user configured a server at an inner address.
    Any,
}

impl AddressRule {
    /// The rule for what a server at this URL names. Names count as public whatever they resolve to now.
    pub fn of(server: &Url) -> Self {
        match server.host() {
            Some(url::Host::Domain("localhost")) => Self::Any,
            Some(url::Host::Ipv4(address)) if not_public(address.into()).is_some() => Self::Any,
            Some(url::Host::Ipv6(address)) if not_public(address.into()).is_some() => Self::Any,
            _ => Self::Public,
        }
    }

    fn permits(self, address: IpAddr) -> bool {
        self == Self::Any || not_public(address).is_none()
    }
}

/// The rule, and the hosts and networks that the configuration lifts it for.
#[derive(Debug, Clone)]
struct PermittedAddresses {
    rule: AddressRule,
    allowed: Arc<AllowedHosts>,
}

impl PermittedAddresses {
    fn permits(&self, address: IpAddr) -> bool {
        self.rule.permits(address) || self.allowed.has_address(address)
    }

    fn permits_host(&self, name: &str) -> bool {
        self.rule == AddressRule::Any || self.allowed.has_name(name)
    }
}

struct GuardedResolver(PermittedAddresses);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let permitted = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let is_permitted = |address: &SocketAddr| permitted.permits(address.ip());
            if !permitted.permits_host(name.as_str()) && !found.iter().all(is_permitted) {
                return Err(INNER_NAME.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The client for everything that leads to a token.
#[derive(Debug, Clone)]
pub(super) struct AuthTransport {
    client: Client,
    permitted: PermittedAddresses,
}

/// An answer: its status, and its JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl AuthTransport {
    pub(super) fn new(rule: AddressRule, allowed: AllowedHosts) -> Result<Self, AuthError> {
        let permitted = PermittedAddresses { rule, allowed: Arc::new(allowed) };
        // Fails if a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(GuardedResolver(permitted.clone()))
            .timeout(EXCHANGE_TIMEOUT)
            .no_proxy()
            .build();
        let failed = |error: reqwest::Error| AuthError::Unreachable { what: "the network", reason: error.to_string() };
        Ok(Self { client: client.map_err(failed)?, permitted })
    }

    /// Checks a URL that a document named.
    pub(super) fn check(&self, what: &'static str, text: &str) -> Result<Url, AuthError> {
        let refused = |reason: &str| AuthError::Url { what, reason: reason.to_owned() };
        let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        let address = match url.host() {
            Some(url::Host::Ipv4(address)) => Some(IpAddr::from(address)),
            Some(url::Host::Ipv6(address)) => Some(IpAddr::from(address)),
            Some(url::Host::Domain(_)) => None,
            None => return Err(refused("it has no host")),
        };
        if address.is_some_and(|address| !self.permitted.permits(address)) {
            return Err(refused(INNER_ADDRESS));
        }
        let is_local = address.is_some_and(|address| address.is_loopback()) || url.host_str() == Some("localhost");
        match url.scheme() {
            "https" => {}
            // An address of this machine got here by the rule or by `allowHosts`; the name must be permitted as well.
            "http" if address.is_some_and(|address| address.is_loopback()) => {}
            "http" if is_local && self.permitted.permits_host("localhost") => {}
            _ => return Err(refused("it is not HTTPS")),
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(refused("it has credentials or a fragment"));
        }
        Ok(url)
    }

    /// A document; none if there is none at that URL.
    pub(super) async fn document(&self, what: &'static str, url: Url) -> Result<Option<Value>, AuthError> {
        let request = self.client.get(url).header("Accept", "application/json");
        let answer = self.exchange(what, request).await?;
        match answer {
            Answer { status: StatusCode::OK, body } if body.is_object() => Ok(Some(body)),
            Answer { status: StatusCode::OK, .. } => {
                Err(AuthError::Invalid { what, reason: "it is not a JSON object".to_owned() })
            }
            Answer { status, .. } if status.is_client_error() => Ok(None),
            Answer { status, .. } => Err(AuthError::Unreachable { what, reason: format!("HTTP {}", status.as_u16()) }),
        }
    }

    /// Sends a JSON object.
    pub(super) async fn post_json(&self, what: &'static str, url: Url, body: &Value) -> Result<Answer, AuthError> {
        let request = self.client.post(url).header("Accept", "application/json").json(body);
        self.exchange(what, request).await
    }

    /// Sends a form, with the credentials of the client in the header if given.
    pub(super) async fn post_form(
        &self,
        what: &'static str,
        url: Url,
        form: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<Answer, AuthError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.client.post(url).header("Accept", "application/json");
        let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(body);
        let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let request = match basic {
            Some((id, secret)) => request.basic_auth(encoded(id), Some(encoded(secret))),
            None => request,
        };
        self.exchange(what, request).await
    }

    async fn exchange(&self, what: &'static str, request: reqwest::RequestBuilder) -> Result<Answer, AuthError> {
        let unreachable = |error: reqwest::Error| AuthError::Unreachable { what, reason: describe(&error) };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_redirection() {
            let reason = "it redirects, which is not followed".to_owned();
            return Err(AuthError::Unreachable { what, reason });
        }
        let bytes = read(what, response).await?;
        let permit = ByteBudget::unlimited().empty_permit();
        let body = JsonText::read(bytes, permit).ok().and_then(|text| json_text::small_tree(text.as_str()));
        Ok(Answer { status, body: body.unwrap_or_default() })
    }
}

async fn read(what: &'static str, mut response: Response) -> Result<Vec<u8>, AuthError> {
    let too_large = |_| AuthError::TooLarge { what, limit: MAX_DOCUMENT_BYTES };
    let mut body = Buffer::new(&ByteBudget::unlimited(), MAX_DOCUMENT_BYTES);
    let broken = |error: reqwest::Error| AuthError::Unreachable { what, reason: describe(&error) };
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        body.push(&chunk).map_err(too_large)?;
    }
    Ok(body.finish().0)
}

/// The innermost cause: the outer ones repeat the URL.
fn describe(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    printable(&cause.to_string())
}

/// Text of another side that people read: bounded, without control characters.
pub(super) fn printable(text: &str) -> String {
    one_line(text, MAX_REFUSAL_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: &str, named: &str, permitted: bool) {
        check_allowing(&[], server, named, permitted);
    }

    fn check_allowing(allowed: &[&str], server: &str, named: &str, permitted: bool) {
        let allowed = AllowedHosts::new(allowed.iter().copied());
        let transport = AuthTransport::new(AddressRule::of(&Url::parse(server).unwrap()), allowed).unwrap();
        assert_eq!(transport.check("it", named).is_ok(), permitted, "{server} {named}");
    }

    #[test]
    fn a_public_server_leads_to_public_addresses_by_https() {
        let server = "https://mcp.example.com/mcp";
        check(server, "https://login.example.com/x", true);
        check(server, "https://1.1.1.1/x", true);
        for named in [
            "http://login.example.com/x",
            "https://127.0.0.1/x",
            "https://10.0.0.1/x",
            "https://[::1]/x",
            "https://169.254.169.254/latest/meta-data",
            "http://localhost:8080/x",
            "file:///etc/passwd",
            "https://user:secret@login.example.com/x",
            "nonsense",
        ] {
            check(server, named, false);
        }
    }

    #[test]
    fn an_inner_server_may_lead_to_inner_addresses_and_to_this_machine_without_tls() {
        for server in ["http://127.0.0.1:1/mcp", "http://localhost/mcp", "https://10.0.0.1/mcp"] {
            check(server, "https://10.0.0.2/x", true);
            check(server, "http://127.0.0.1:9/x", true);
            check(server, "http://10.0.0.2/x", false);
        }
    }

    #[tokio::test]
    async fn a_public_server_reaches_no_name_that_leads_inside() {
        let transport = AuthTransport::new(AddressRule::Public, AllowedHosts::default()).unwrap();
        let url = transport.check("it", "https://localhost.example.com/").map(drop);
        assert_eq!(url, Ok(()));
        for (allowed, reaches) in [("other.example", false), ("localhost", true), ("127.0.0.0/8, ::1", true)] {
            let allowed = Arc::new(AllowedHosts::new(allowed.split(", ")));
            let resolver = GuardedResolver(PermittedAddresses { rule: AddressRule::Public, allowed });
            let found = resolver.resolve("localhost".parse().unwrap()).await;
            assert_eq!(
                found.map(drop).map_err(|error| error.to_string()),
                if reaches { Ok(()) } else { Err(INNER_NAME.to_owned()) }
            );
        }
    }

    #[test]
    fn what_the_configuration_allows_is_reached_from_a_public_server_and_nothing_beside_it() {
        let (server, allowed) = ("https://mcp.example.com/mcp", ["10.1.0.0/16", "127.0.0.1", "login.corp"]);
        for (named, permitted) in [
            ("https://10.1.2.3/x", true),
            ("https://10.2.0.1/x", false),
            ("http://10.1.2.3/x", false),
            ("http://127.0.0.1:9/x", true),
            ("http://127.0.0.2:9/x", false),
            ("https://login.corp/x", true),
            ("http://login.corp/x", false),
            ("http://localhost:9/x", false),
        ] {
            check_allowing(&allowed, server, named, permitted);
        }
    }
}
