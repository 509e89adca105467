//! The OAuth logins that a document describes: where a person logs in, where tokens are issued, which scopes operations need.
//!
//! They are suggestions for the configuration, like the servers of a document: a login goes where the configuration says,
//! so a document that changes later cannot send it elsewhere. Nothing is fetched; a login that is described by metadata at
//! a URL is given as that URL.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;
use url::Url;

use crate::api::{LoadError, json_text};
use crate::document::{Document, Version};
use crate::security::schemes_pointer;

/// Most logins of one document.
const MAX_LOGINS: usize = 32;
/// Most scopes of one login.
const MAX_SCOPES: usize = 100;
/// Most characters of a scope.
const MAX_SCOPE_CHARS: usize = 500;

/// A login that a document describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentLogin {
    /// The name of its security scheme.
    pub scheme: String,
    /// Where it takes place.
    pub place: LoginPlace,
    /// The scopes that the operations ask for, sorted.
    pub scopes: Vec<String>,
}

/// Where a login takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginPlace {
    /// A person logs in with a browser.
    AuthorizationCode {
        /// The page.
        authorization_url: Url,
        /// Where tokens are issued.
        token_url: Url,
    },
    /// Metadata of an authorization server say it.
    Metadata(Url),
    /// The client logs in by itself.
    ClientCredentials {
        /// Where tokens are issued.
        token_url: Url,
    },
}

/// The logins of a document, those of people first, at most 32. Relative URLs are resolved against `base`, where requests go.
///
/// # Errors
/// If the text is no OpenAPI document.
pub fn logins(text: &str, base: &Url) -> Result<Vec<DocumentLogin>, LoadError> {
    let json = json_text(text)?;
    let document = Document::new(&json).map_err(LoadError::NotOpenApi)?;
    let declared = document.parse_at(schemes_pointer(document.version));
    let mut found = Vec::new();
    for (name, scheme) in declared.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let Ok((scheme, _)) = document.follow(Rc::new(scheme.clone())) else { continue };
        found.extend(places(document.version, &scheme, base).into_iter().map(|place| (name.clone(), place)));
    }
    let order = |(_, place): &(String, LoginPlace)| match place {
        LoginPlace::AuthorizationCode { .. } => 0,
        LoginPlace::Metadata(_) => 1,
        LoginPlace::ClientCredentials { .. } => 2,
    };
    found.sort_by_key(order);
    found.truncate(MAX_LOGINS);
    let scopes = scopes(&document, found.iter().map(|(scheme, _)| scheme.as_str()));
    let login = |(scheme, place): (String, LoginPlace)| {
        let scopes = scopes.get(&scheme).into_iter().flatten().take(MAX_SCOPES).cloned().collect();
        DocumentLogin { scheme, place, scopes }
    };
    Ok(found.into_iter().map(login).collect())
}

fn places(version: Version, scheme: &Value, base: &Url) -> Vec<LoginPlace> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let url = |value: &Value, key: &str| {
        let url = base.join(&text(value, key)?).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
    };
    let of_person = |flow: &Value| {
        let (authorization_url, token_url) = (url(flow, "authorizationUrl")?, url(flow, "tokenUrl")?);
        Some(LoginPlace::AuthorizationCode { authorization_url, token_url })
    };
    let of_client = |flow: &Value| Some(LoginPlace::ClientCredentials { token_url: url(flow, "tokenUrl")? });
    match (text(scheme, "type").as_deref(), version) {
        (Some("oauth2"), Version::V2) => match text(scheme, "flow").as_deref() {
            Some("accessCode") => of_person(scheme).into_iter().collect(),
            Some("application") => of_client(scheme).into_iter().collect(),
            _ => Vec::new(),
        },
        (Some("oauth2"), _) => {
            let flow = |name: &str| scheme.pointer(&format!("/flows/{name}"));
            let of_flows =
                [flow("authorizationCode").and_then(of_person), flow("clientCredentials").and_then(of_client)];
            let metadata = url(scheme, "oauth2MetadataUrl").map(LoginPlace::Metadata);
            of_flows.into_iter().flatten().chain(metadata).collect()
        }
        (Some("openIdConnect"), _) => url(scheme, "openIdConnectUrl").map(LoginPlace::Metadata).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The scopes that the operations and the document as a whole need of each of these schemes. Of the alternatives of an
/// operation, the first that has the scheme counts.
fn scopes<'a>(document: &Document<'_>, schemes: impl Iterator<Item = &'a str>) -> BTreeMap<String, BTreeSet<String>> {
    let mut scopes: BTreeMap<String, BTreeSet<String>> =
        schemes.map(|scheme| (scheme.to_owned(), BTreeSet::new())).collect();
    let mut take = |security: &Value| {
        let mut taken = BTreeSet::new();
        let alternatives = security.as_array().into_iter().flatten();
        for (scheme, named) in alternatives.filter_map(Value::as_object).flatten() {
            let Some(known) = scopes.get_mut(scheme) else { continue };
            if !taken.insert(scheme.as_str()) {
                continue;
            }
            let named = named.as_array().into_iter().flatten().filter_map(Value::as_str);
            let named = named.filter(|scope| !scope.is_empty() && scope.chars().count() <= MAX_SCOPE_CHARS);
            known.extend(named.filter(|scope| !scope.contains(char::is_whitespace)).map(str::to_owned));
        }
    };
    document.top("security").iter().for_each(&mut take);
    for (_, item) in document.paths().unwrap_or_default() {
        let item: Value = serde_json::from_str(item.get()).unwrap_or_default();
        let operations = item.as_object().into_iter().flat_map(|item| item.values());
        operations.filter_map(|operation| operation.get("security")).for_each(&mut take);
    }
    scopes
}
