//! The documents that lead from a server to its tokens, and where they are.
//!
//! A server names its authorization servers in its protected resource metadata; an authorization server describes itself at
//! one of the well-known places. Servers of the first revision have neither: then the server's own origin is the issuer.
//! Every document is checked against the URL by which it was found.

use reqwest::Url;
use serde_json::Value;
use url::Origin;

use super::transport::AuthTransport;
use super::{AuthError, issuer_binding};

const RESOURCE: &str = "the metadata of the server";
const ISSUER: &str = "the metadata of the authorization server";

/// What is known of a server's authorization.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Discovered {
    /// The resource that tokens are for (RFC 8707).
    pub(super) resource: String,
    /// Whether requests for tokens name it; servers outside of MCP may refuse what they do not know.
    pub(super) names_resource: bool,
    /// The scopes that the server's metadata lists.
    pub(super) scopes: Vec<String>,
    /// Who issues tokens.
    pub(super) issuer: AuthorizationServer,
}

/// An authorization server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AuthorizationServer {
    /// Its identifier, exactly as its metadata has it.
    pub(super) issuer: String,
    /// What `iss` of a redirect is compared with.
    pub(super) redirect_issuer: RedirectIssuer,
    pub(super) authorization_endpoint: Option<Url>,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    /// Whether it sends `iss` with every redirect (RFC 9207).
    pub(super) sends_issuer: bool,
    pub(super) reads_client_documents: bool,
    pub(super) auth_methods: Vec<String>,
    pub(super) scopes: Vec<String>,
    /// Whether it declares PKCE with S256; servers without metadata cannot.
    pub(super) has_pkce: bool,
}

/// What the `iss` of a redirect must be, where it is given (RFC 9207).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RedirectIssuer {
    /// The issuer as its metadata has it, letter by letter.
    Exact,
    /// The issuer of the configuration; whether its root path is written as a slash makes no difference.
    Configured,
    /// Any issuer of this origin, because only the page of the login is known.
    OfOrigin(Origin),
}

/// Where tokens are issued, for a server that has no metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// Where a person logs in; none for clients that log in by themselves.
    pub authorization: Option<String>,
    /// Where tokens are issued.
    pub token: String,
    /// Whether requests for tokens name the server as their `resource`: MCP demands it, other APIs may not know it.
    pub names_resource: bool,
}

/// What the configuration says instead of metadata.
pub(super) fn configured(
    transport: &AuthTransport,
    server: &Url,
    endpoints: &Endpoints,
    issuer: Option<&str>,
) -> Result<Discovered, AuthError> {
    let token_endpoint = transport.check("the configured token endpoint", &endpoints.token)?;
    let page = endpoints.authorization.as_deref();
    let page = page.map(|url| transport.check("the configured authorization endpoint", url)).transpose()?;
    let origin = page.as_ref().unwrap_or(&token_endpoint).origin();
    let issuer = AuthorizationServer {
        issuer: issuer.map_or_else(|| token_endpoint.origin().ascii_serialization(), str::to_owned),
        redirect_issuer: if issuer.is_some() { RedirectIssuer::Configured } else { RedirectIssuer::OfOrigin(origin) },
        authorization_endpoint: page,
        token_endpoint,
        registration_endpoint: None,
        revocation_endpoint: None,
        sends_issuer: false,
        reads_client_documents: false,
        auth_methods: Vec::new(),
        scopes: Vec::new(),
        has_pkce: true,
    };
    let names_resource = endpoints.names_resource;
    Ok(Discovered { resource: canonical(server), names_resource, scopes: Vec::new(), issuer })
}

/// Finds out who issues tokens for a server, from the metadata that it named, if it did.
pub(super) async fn discover(
    transport: &AuthTransport,
    server: &Url,
    named: Option<&str>,
) -> Result<Discovered, AuthError> {
    let Some(document) = resource_document(transport, server, named).await? else {
        return legacy(transport, server).await;
    };
    let resource = checked_resource(&document, server)?;
    let named = texts(&document, "authorization_servers");
    let Some(issuer) = named.first() else {
        return Err(AuthError::Invalid { what: RESOURCE, reason: "it names no authorization server".to_owned() });
    };
    let issuer_url = transport.check(ISSUER, issuer)?;
    let found = issuer_document(transport, &issuer_url).await?;
    let missing = || AuthError::Invalid { what: ISSUER, reason: format!("{issuer} has none at the well-known places") };
    let issuer = AuthorizationServer::read(transport, &found.ok_or_else(missing)?, issuer)?;
    Ok(Discovered { resource, names_resource: true, scopes: texts(&document, "scopes_supported"), issuer })
}

async fn resource_document(
    transport: &AuthTransport,
    server: &Url,
    named: Option<&str>,
) -> Result<Option<Value>, AuthError> {
    if let Some(named) = named {
        return transport.document(RESOURCE, transport.check(RESOURCE, named)?).await;
    }
    let places = well_known(server, "oauth-protected-resource", &[Place::Before, Place::Root]);
    match first_document(transport, RESOURCE, places).await {
        // A server of the first revision behind such a site.
        Err(AuthError::Invalid { .. }) => Ok(None),
        found => found,
    }
}

async fn issuer_document(transport: &AuthTransport, issuer: &Url) -> Result<Option<Value>, AuthError> {
    let oauth = well_known(issuer, "oauth-authorization-server", &[Place::Before]);
    let openid = well_known(issuer, "openid-configuration", &[Place::Before, Place::After]);
    first_document(transport, ISSUER, oauth.into_iter().chain(openid)).await
}

/// The document at the first place that has one. Many sites answer every path with a page: that is no document, and is
/// told only if no other place has one.
async fn first_document(
    transport: &AuthTransport,
    what: &'static str,
    places: impl IntoIterator<Item = Url>,
) -> Result<Option<Value>, AuthError> {
    let mut page = None;
    for place in places {
        match transport.document(what, place).await {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            Err(error @ AuthError::Invalid { .. }) => page = page.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    page.map_or(Ok(None), Err)
}

/// Before there was resource metadata, the server's origin was the issuer, with or without a document.
async fn legacy(transport: &AuthTransport, server: &Url) -> Result<Discovered, AuthError> {
    let mut origin = server.clone();
    origin.set_path("/");
    origin.set_query(None);
    let issuer = origin.as_str().trim_end_matches('/').to_owned();
    transport.check(ISSUER, origin.as_str())?;
    let issuer = match issuer_document(transport, &origin).await? {
        Some(document) => AuthorizationServer::read(transport, &document, &issuer)?,
        None => {
            let endpoint = |path: &str| origin.join(path).map_err(|error| url_error(&error));
            AuthorizationServer {
                authorization_endpoint: Some(endpoint("/authorize")?),
                token_endpoint: endpoint("/token")?,
                registration_endpoint: Some(endpoint("/register")?),
                revocation_endpoint: None,
                issuer,
                redirect_issuer: RedirectIssuer::Exact,
                sends_issuer: false,
                reads_client_documents: false,
                auth_methods: Vec::new(),
                scopes: Vec::new(),
                has_pkce: true,
            }
        }
    };
    Ok(Discovered { resource: canonical(server), names_resource: true, scopes: Vec::new(), issuer })
}

fn url_error(error: &url::ParseError) -> AuthError {
    AuthError::Url { what: ISSUER, reason: error.to_string() }
}

impl AuthorizationServer {
    /// Whether the `iss` of a redirect names this server.
    pub(super) fn is_named_by(&self, found: &str) -> bool {
        match &self.redirect_issuer {
            RedirectIssuer::Exact => found == self.issuer,
            RedirectIssuer::Configured => issuer_binding::is_same(found, &self.issuer),
            RedirectIssuer::OfOrigin(origin) => Url::parse(found).is_ok_and(|found| found.origin() == *origin),
        }
    }

    /// What redirects must name, for messages.
    pub(super) fn redirect_issuer(&self) -> String {
        match &self.redirect_issuer {
            RedirectIssuer::Exact | RedirectIssuer::Configured => self.issuer.clone(),
            RedirectIssuer::OfOrigin(origin) => origin.ascii_serialization(),
        }
    }

    fn read(transport: &AuthTransport, document: &Value, expected: &str) -> Result<Self, AuthError> {
        let text = |key: &str| document.get(key).and_then(Value::as_str);
        let found = text("issuer").unwrap_or_default();
        // Whether the root path is written as a slash is the only liberty.
        if found.trim_end_matches('/') != expected.trim_end_matches('/') {
            return Err(AuthError::WrongIssuer { expected: expected.to_owned(), found: found.to_owned() });
        }
        let endpoint = |key: &str| text(key).map(|url| transport.check(ISSUER, url)).transpose();
        let no_tokens = || AuthError::Invalid { what: ISSUER, reason: "it has no token_endpoint".to_owned() };
        let flag = |key: &str| document.get(key) == Some(&Value::Bool(true));
        Ok(Self {
            issuer: found.to_owned(),
            redirect_issuer: RedirectIssuer::Exact,
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?.ok_or_else(no_tokens)?,
            registration_endpoint: endpoint("registration_endpoint")?,
            revocation_endpoint: endpoint("revocation_endpoint")?,
            sends_issuer: flag("authorization_response_iss_parameter_supported"),
            reads_client_documents: flag("client_id_metadata_document_supported"),
            auth_methods: texts(document, "token_endpoint_auth_methods_supported"),
            scopes: texts(document, "scopes_supported"),
            has_pkce: texts(document, "code_challenge_methods_supported").iter().any(|method| method == "S256"),
        })
    }
}

/// Where a path goes in a well-known URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The well-known part before the path (RFC 8414, RFC 9728).
    Before,
    /// The path before the well-known part (OpenID).
    After,
    /// No path.
    Root,
}

fn well_known(url: &Url, name: &str, places: &[Place]) -> Vec<Url> {
    let path = url.path().trim_matches('/');
    let mut found: Vec<Url> = Vec::new();
    for place in places {
        let mut candidate = url.clone();
        candidate.set_query(None);
        candidate.set_path(&match place {
            _ if path.is_empty() => format!("/.well-known/{name}"),
            Place::Before => format!("/.well-known/{name}/{path}"),
            Place::After => format!("/{path}/.well-known/{name}"),
            Place::Root => format!("/.well-known/{name}"),
        });
        if !found.contains(&candidate) {
            found.push(candidate);
        }
    }
    found
}

/// The resource of a document, which must be the server or a path above it.
fn checked_resource(document: &Value, server: &Url) -> Result<String, AuthError> {
    let found = document.get("resource").and_then(Value::as_str).unwrap_or_default();
    match covers(found, server) {
        true => Ok(found.to_owned()),
        false => Err(AuthError::WrongResource { expected: canonical(server), found: found.to_owned() }),
    }
}

/// Whether a resource is a server, or a path above it.
pub(super) fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let below = server.path().strip_prefix(resource.path().trim_end_matches('/'));
    resource.origin() == server.origin() && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The server's URL as a resource identifier.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

fn texts(document: &Value, key: &str) -> Vec<String> {
    let list = document.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).take(200).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn places(url: &str, name: &str, places: &[Place]) -> Vec<String> {
        well_known(&Url::parse(url).unwrap(), name, places).iter().map(Url::to_string).collect()
    }

    #[test]
    fn documents_are_at_the_well_known_places_in_order() {
        let both = [Place::Before, Place::After];
        assert_eq!(places("https://a/", "x", &both), ["https://a/.well-known/x"]);
        assert_eq!(places("https://a/t/1", "x", &both), ["https://a/.well-known/x/t/1", "https://a/t/1/.well-known/x"]);
        let resource = [Place::Before, Place::Root];
        assert_eq!(
            places("https://a/mcp?q=1", "r", &resource),
            ["https://a/.well-known/r/mcp", "https://a/.well-known/r"]
        );
    }

    fn check(resource: &str, server: &str, fits: bool) {
        let found = checked_resource(&json!({ "resource": resource }), &Url::parse(server).unwrap());
        assert_eq!(found.is_ok(), fits, "{resource} {server}");
    }

    #[test]
    fn the_resource_is_the_server_or_a_path_above_it() {
        let server = "https://a.example/mcp/v1";
        check("https://a.example/mcp/v1", server, true);
        check("https://a.example/mcp", server, true);
        check("https://a.example", server, true);
        check("https://a.example/mc", server, false);
        check("https://b.example/mcp/v1", server, false);
        check("http://a.example/mcp/v1", server, false);
        check("", server, false);
    }
}
