//! Which client this is at an authorization server.
//!
//! In this order: the client that the user registered, a client id that is the URL of a public document, dynamic
//! registration (RFC 7591). If none of them is possible, the user is told what to register. A client belongs to the issuer
//! it was registered at.

use serde_json::{Value, json};

use super::metadata::AuthorizationServer;
use super::transport::{AuthTransport, printable};
use super::{AuthError, SecretText};

const WHAT: &str = "the registration of this client";

/// What the configuration says about the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientRegistration {
    /// The client that the user registered.
    pub preregistered: Option<RegisteredClient>,
    /// The HTTPS URL of a document that describes this client.
    pub metadata_document: Option<String>,
}

/// A client that an authorization server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<SecretText>,
    /// Where it was registered to be redirected to; unknown for a client that the user registered.
    pub redirect_uri: Option<String>,
}

/// Finds or registers the client; `known` is one that was registered at this issuer before.
pub(super) async fn client_at(
    transport: &AuthTransport,
    server: &AuthorizationServer,
    settings: &ClientRegistration,
    known: Option<RegisteredClient>,
    redirect_uri: &str,
) -> Result<RegisteredClient, AuthError> {
    if let Some(client) = &settings.preregistered {
        return Ok(client.clone());
    }
    if let Some(document) = settings.metadata_document.as_ref().filter(|_| server.reads_client_documents) {
        return Ok(RegisteredClient { id: document.clone(), secret: None, redirect_uri: None });
    }
    // Many servers compare the whole redirect URI, with its port.
    if let Some(known) = known.filter(|known| known.redirect_uri.as_deref() == Some(redirect_uri)) {
        return Ok(known);
    }
    let Some(endpoint) = server.registration_endpoint.clone() else {
        return Err(AuthError::NoClient { issuer: server.issuer.clone(), redirect_uri: redirect_uri.to_owned() });
    };
    let method = auth_method(server);
    let request = json!({
        "client_name": "Toolgate",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
    });
    let answer = transport.post_json(WHAT, endpoint, &request).await?;
    let text = |key: &str| answer.body.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let granted = text("token_endpoint_auth_method").unwrap_or_default();
    match text("client_id").filter(|_| answer.status.is_success()) {
        Some(id) => Ok(RegisteredClient {
            id: id.to_owned(),
            secret: text("client_secret").filter(|_| granted != "none").map(SecretText::new),
            redirect_uri: Some(redirect_uri.to_owned()),
        }),
        None => Err(AuthError::Refused {
            what: WHAT,
            code: text("error").map_or_else(|| format!("HTTP {}", answer.status.as_u16()), printable),
            description: text("error_description").map(printable),
        }),
    }
}

/// How this client asks to prove who it is: not at all, unless the server insists. PKCE protects the code.
fn auth_method(server: &AuthorizationServer) -> &'static str {
    let known = |method: &str| server.auth_methods.iter().any(|known| known == method);
    match server.auth_methods.is_empty() || known("none") {
        true => "none",
        false if known("client_secret_basic") => "client_secret_basic",
        false if known("client_secret_post") => "client_secret_post",
        false => "none",
    }
}
