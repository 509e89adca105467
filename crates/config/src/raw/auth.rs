//! How to log in at a server, or the credentials of an API, as it is written.

use serde_json::{Value as Json, json};

use super::reader::{Scalar, scalar, section};
use super::{Located, Location, RawSetting, RawText, Reader, StringMap, Table};
use crate::text::tree::{Node, Value};
use crate::values::{Allowed, Endpoint, LoginGrant};

section! {
    /// How to log in at a server with OAuth.
    Refused Login {
        /// The id of a client that you registered at the authorization server.
        client_id = "clientId": RawText<String>,
        /// Its secret, if it has one.
        client_secret = "clientSecret": RawText<String>,
        /// The HTTPS URL of a document that describes this client, for authorization servers that read such.
        client_metadata = "clientMetadata": RawText<Endpoint>,
        /// The only issuer that this client logs in at, as its metadata names it. Credentials are sent to no other, whatever the server names. Beside tokenUrl, the issuer that the redirect of a login must name, if it names one; by default any of the origin of authorizationUrl.
        issuer: RawText<Endpoint>,
        /// Who logs in: a person with a browser (authorization_code), or the client itself (client_credentials).
        grant: RawText<LoginGrant>,
        /// Scopes to ask for besides those that the server names.
        scopes: Vec<Located<RawText<String>>>,
        /// The port of this machine that the browser comes back to, if a client is registered for one; by default any.
        redirect_port = "redirectPort": u64,
        /// Where a person logs in, for a server without metadata.
        authorization_url = "authorizationUrl": RawText<Endpoint>,
        /// Where tokens are issued, for a server without metadata.
        token_url = "tokenUrl": RawText<Endpoint>,
        /// Hosts and networks that the login may lead to although they are not public, such as the login server of a company.
        allow_hosts = "allowHosts": Vec<Located<RawText<Allowed>>>,
    }
}

/// How to log in at a server, or the credentials of an API.
#[derive(Debug, Clone)]
pub(crate) enum RawAuth {
    /// A login.
    Login(Box<Login>),
    /// By the names of security schemes.
    Schemes(Table<RawCredential>),
}

/// The credential of one security scheme.
#[derive(Debug, Clone)]
pub(crate) enum RawCredential {
    /// The credential itself.
    Text(Scalar),
    /// A login that gives one.
    Login(Box<Login>),
}

impl RawSetting for RawAuth {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        let is_login =
            node.entries().is_some_and(|entries| entries.iter().all(|entry| Login::KEYS.contains(&entry.key.as_str())));
        match is_login {
            true => Login::read(node, place, reader).map(|login| Self::Login(Box::new(login))),
            false => RawSetting::read(node, place, reader).map(Self::Schemes),
        }
    }

    fn schema() -> Json {
        let mut schema = Login::schema();
        schema["additionalProperties"] = json!({"anyOf": [StringMap::entry_schema(), Login::schema()]});
        schema
    }
}

impl RawSetting for RawCredential {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => Login::read(node, place, reader).map(|login| Self::Login(Box::new(login))),
            _ => scalar(node, place, reader).map(Self::Text),
        }
    }

    fn schema() -> Json {
        json!({"anyOf": [StringMap::entry_schema(), Login::schema()]})
    }
}
