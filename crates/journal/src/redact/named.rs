//! Values under secret names in JSON texts.
//!
//! Everything below such a name is a secret, also in lists and objects, except in an object that is a schema: that says which values
//! there are and has none, apart from those that it gives as a default or an example. Reads over a text without a tree of it.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::spelling::with_characters_only;

/// Names whose values are secrets, without case, `_` and `-`.
const SECRET_NAMES: [&str; 18] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "clientsecret",
    "token",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "authtoken",
    "apikey",
    "xapikey",
    "authorization",
    "proxyauthorization",
    "cookie",
    "setcookie",
    "privatekey",
    "credentials",
];

/// What `type` says in a JSON Schema.
const SCHEMA_TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];
/// Members that only schemas have.
const SCHEMA_MEMBERS: [&str; 4] = ["$ref", "anyOf", "oneOf", "allOf"];
/// Members of a schema that have values.
const VALUE_MEMBERS: [&str; 3] = ["default", "example", "examples"];

/// Collects the values under secret names in a JSON text, and in JSON texts inside it.
pub(super) fn in_json(text: &str, nesting: usize, found: &mut BTreeSet<String>) {
    let first = text.trim_start().chars().next();
    if nesting == 0 || !matches!(first, Some('{' | '[' | '"')) {
        return;
    }
    let text = with_characters_only(text);
    let mut reader = serde_json::Deserializer::from_str(&text);
    // Several documents may follow each other. Where a text is no JSON from some place on, what was found before it stays.
    loop {
        let finder =
            SecretFinder { nesting, named: Named::Ordinary, found: &mut *found, doubtful: &mut BTreeSet::new() };
        if finder.deserialize(&mut reader).is_err() || reader.end().is_ok() {
            break;
        }
    }
}

/// Whether a value is below a secret name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Ordinary,
    Secret,
    /// It is, in an object that may turn out to be a schema.
    Doubtful,
}

/// Reads over a value and keeps secrets alone: a tree of the value would take forty times its text.
struct SecretFinder<'f> {
    nesting: usize,
    named: Named,
    found: &'f mut BTreeSet<String>,
    /// Secrets, unless the object around them is a schema.
    doubtful: &'f mut BTreeSet<String>,
}

impl SecretFinder<'_> {
    /// For a value inside this one.
    fn inside(&mut self, named: Named) -> SecretFinder<'_> {
        SecretFinder { nesting: self.nesting, named, found: self.found, doubtful: self.doubtful }
    }

    fn add(&mut self, value: String) {
        match self.named {
            Named::Ordinary => {}
            Named::Secret => drop(self.found.insert(value)),
            Named::Doubtful => drop(self.doubtful.insert(value)),
        }
    }

    /// An object under a secret name.
    fn secret_map<'de, A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let (mut is_schema, mut doubtful) = (false, BTreeSet::new());
        let SecretFinder { nesting, found, .. } = self;
        while let Some(name) = members.next_key::<String>()? {
            let named = named(&name, Named::Doubtful);
            let mut here = BTreeSet::new();
            members.next_value_seed(SecretFinder { nesting, named, found: &mut *found, doubtful: &mut here })?;
            let is_type = |text: &String| SCHEMA_TYPES.contains(&text.as_str());
            is_schema |= SCHEMA_MEMBERS.contains(&name.as_str());
            is_schema |= name == "type" && !here.is_empty() && here.iter().all(is_type);
            doubtful.append(&mut here);
        }
        if !is_schema {
            found.append(&mut doubtful);
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for SecretFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SecretFinder<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.add(number.to_string());
        Ok(())
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        self.add(number.to_string());
        Ok(())
    }

    fn visit_f64<E>(mut self, number: f64) -> Result<(), E> {
        self.add(number.to_string());
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.add(without_scheme(text).to_owned());
        in_json(text, self.nesting - 1, self.found);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let named = self.named;
        while items.next_element_seed(self.inside(named))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        if self.named == Named::Secret {
            return self.secret_map(members);
        }
        while let Some(name) = members.next_key::<String>()? {
            let named = named(&name, self.named);
            members.next_value_seed(self.inside(named))?;
        }
        Ok(())
    }
}

/// What a member of an object is, by its name and what the object is.
fn named(name: &str, around: Named) -> Named {
    let is_value = around == Named::Doubtful && VALUE_MEMBERS.contains(&name);
    if is_value || is_secret_name(name) { Named::Secret } else { around }
}

fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !['_', '-'].contains(c)).flat_map(char::to_lowercase).collect();
    SECRET_NAMES.contains(&plain.as_str())
}

/// `Bearer x` is the secret `x`.
fn without_scheme(text: &str) -> &str {
    let schemes = ["Bearer ", "Basic ", "bearer ", "basic "];
    schemes.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text)
}
