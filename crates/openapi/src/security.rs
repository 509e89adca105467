//! Security schemes: which credential goes where in a request.
//!
//! Credentials come from the configuration, by the name of the scheme in the document; `bearer` and `basic` are
//! schemes of their own where the document has none of that name. They are attached after everything else, so no
//! argument can replace one. A scheme that takes no credential, such as `mutualTLS`, does not keep those beside it from
//! being sent. Flows that obtain a token are not run here; `logins` says which there are.
//!
//! Many documents describe their schemes and then ask for none of them, neither at the top nor at any operation. What is
//! configured for such a document is meant for all of its requests; otherwise it would never be sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::bounds::{MAX_ALTERNATIVES, MAX_SCHEME_BYTES, MAX_SCHEMES, MAX_SHOWN};
use crate::document::{Document, Version};
use toolgate_wire::foreign_text::escaped;

/// Where a credential goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Carrier {
    Header(String),
    Query(String),
    Cookie(String),
    Bearer,
    Basic,
}

/// Secrets of the configuration, by the names of security schemes. Printed without their values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(BTreeMap<String, String>);

impl Credentials {
    /// Credentials by scheme.
    pub fn new(secrets: BTreeMap<String, String>) -> Self {
        Self(secrets)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The schemes of a document with the credentials that are known.
#[derive(Debug, Default)]
pub(crate) struct Security {
    schemes: BTreeMap<String, Carrier>,
    credentials: Credentials,
    /// Credentials that every request carries: those of no scheme of the document.
    always: Vec<String>,
    /// Schemes that ask for a client certificate.
    certificates: BTreeSet<String>,
}

/// Alternatives of which one is enough; each names the schemes that it needs together.
pub(crate) type Requirement = Vec<Vec<String>>;

impl Security {
    /// Reads the schemes. A credential for a scheme that does not exist is an error, because it would never be sent.
    pub(crate) fn read(document: &Document<'_>, credentials: Credentials) -> Result<Self, String> {
        let declared = document.parse_at(schemes_pointer(document.version));
        let declared = declared.as_ref().and_then(Value::as_object).into_iter().flatten();
        let mut schemes = BTreeMap::new();
        let mut certificates = BTreeSet::new();
        for (name, scheme) in declared {
            let Ok((scheme, _)) = document.follow(std::rc::Rc::new(scheme.clone())) else { continue };
            if let Some(carrier) = carrier(&scheme) {
                schemes.insert(name.clone(), carrier);
            } else if scheme.get("type").and_then(Value::as_str) == Some("mutualTLS") {
                certificates.insert(name.clone());
            }
        }
        let known: Vec<String> = schemes.keys().cloned().collect();
        let mut always = Vec::new();
        for name in credentials.0.keys().filter(|name| !known.contains(name)) {
            let carrier = match name.as_str() {
                "bearer" => Carrier::Bearer,
                "basic" => Carrier::Basic,
                other => {
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    return Err(format!(
                        "auth: the document has no security scheme `{other}`: it has {known}; `bearer` and `basic` always exist"
                    ));
                }
            };
            schemes.insert(name.clone(), carrier);
            always.push(name.clone());
        }
        Ok(Self { schemes, credentials, always, certificates })
    }

    /// The alternatives of `security`, as a document writes them.
    pub(crate) fn requirement(value: &Value) -> Requirement {
        let alternatives = value.as_array().into_iter().flatten().take(MAX_ALTERNATIVES).filter_map(Value::as_object);
        // Each operation has a copy of what the document says at its top.
        let is_small = |needed: &&Map<String, Value>| {
            needed.len() <= MAX_SCHEMES && needed.keys().all(|name| name.len() <= MAX_SCHEME_BYTES)
        };
        alternatives.filter(is_small).map(|needed| needed.keys().cloned().collect()).collect()
    }

    /// What a document asks for that has schemes and asks for none: what is configured, together; else any of them.
    pub(crate) fn assumed(&self) -> Requirement {
        let declared = || self.schemes.keys().filter(|name| !self.always.contains(name)).cloned();
        let configured: Vec<String> = declared().filter(|name| self.credentials.0.contains_key(name)).collect();
        if configured.is_empty() { declared().map(|name| vec![name]).collect() } else { vec![configured] }
    }

    /// The credentials for a request: of the first alternative that is complete, else of the first that lacks only schemes
    /// which take no credential; and those that every request carries.
    pub(crate) fn credentials(&self, requirement: &Requirement) -> Vec<(&Carrier, &str)> {
        let takes = |name: &String| self.schemes.contains_key(name);
        let has = |name: &String| takes(name) && self.credentials.0.contains_key(name);
        let is_complete = |needed: &&Vec<String>| !needed.is_empty() && needed.iter().all(has);
        let has_all = |needed: &&Vec<String>| needed.iter().any(has) && needed.iter().all(|it| has(it) || !takes(it));
        let chosen = requirement.iter().find(is_complete).or_else(|| requirement.iter().find(has_all));
        let names = chosen.into_iter().flatten().chain(&self.always);
        names.filter_map(|name| Some((self.schemes.get(name)?, self.credentials.0.get(name)?.as_str()))).collect()
    }

    /// The schemes that a request would have needed, for the text of a 401.
    pub(crate) fn missing(&self, requirement: &Requirement) -> Vec<String> {
        let lacks = |name: &&String| self.schemes.contains_key(*name) && !self.credentials.0.contains_key(*name);
        let names = requirement.iter().flatten().filter(lacks);
        let mut names: Vec<String> = names.cloned().collect();
        names.dedup();
        names
    }

    /// What these requirements ask for that is never sent, as sentences.
    pub(crate) fn notes<'r>(&self, requirements: impl Iterator<Item = &'r Requirement>) -> Vec<String> {
        let asked: BTreeSet<&String> = requirements.flatten().flatten().collect();
        let note = |name: &String| {
            let shown = escaped(name, MAX_SHOWN);
            format!("the security scheme `{shown}` asks for a client certificate, and none is sent")
        };
        self.certificates.iter().filter(|name| asked.contains(name)).map(note).collect()
    }

    /// Whether a credential is sent in this place, so that no argument for it is offered.
    pub(crate) fn occupies(&self, requirement: &Requirement, place: &str, name: &str) -> bool {
        self.credentials(requirement).iter().any(|(carrier, _)| match carrier {
            Carrier::Header(header) => place == "header" && header.eq_ignore_ascii_case(name),
            Carrier::Query(query) => place == "query" && query == name,
            Carrier::Cookie(cookie) => place == "cookie" && cookie == name,
            Carrier::Bearer | Carrier::Basic => false,
        })
    }
}

/// Where a document has its schemes.
pub(crate) fn schemes_pointer(version: Version) -> &'static str {
    match version {
        Version::V2 => "/securityDefinitions",
        Version::V30 | Version::V31 | Version::V32 => "/components/securitySchemes",
    }
}

/// Whether a text can be the name of a header or a cookie.
pub(crate) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~[]".contains(&byte))
}

fn carrier(scheme: &Value) -> Option<Carrier> {
    let text = |key: &str| scheme.get(key).and_then(Value::as_str);
    match text("type")? {
        "apiKey" => {
            let name = text("name")?.to_owned();
            match text("in")? {
                "header" if is_token(&name) => Some(Carrier::Header(name)),
                "query" => Some(Carrier::Query(name)),
                "cookie" if is_token(&name) => Some(Carrier::Cookie(name)),
                _ => None,
            }
        }
        "basic" => Some(Carrier::Basic),
        "http" => match text("scheme")?.to_ascii_lowercase().as_str() {
            "basic" => Some(Carrier::Basic),
            "bearer" => Some(Carrier::Bearer),
            // Any other scheme: the configured value is the whole header.
            _ => Some(Carrier::Header("Authorization".to_owned())),
        },
        "oauth2" | "openIdConnect" => Some(Carrier::Bearer),
        _ => None,
    }
}

/// The value of `Authorization` for Basic: `user:password` in base64.
pub(crate) fn basic(secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(secret))
}
