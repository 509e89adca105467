//! A document as text with an index: any part of it is parsed when it is asked for.
//!
//! Parsing a large document as a whole takes ten times its size in memory; of a definition that is used, only the
//! converted schema is kept. References lead to places of the same document; `bundle` has put
//! other documents into it. Nothing is fetched.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::bounds::{MAX_POINTER_BYTES, MAX_POINTER_SEGMENTS, MAX_REFERENCE_HOPS};
use crate::work::{WorkBudget, weight};
use toolgate_wire::foreign_text::clipped;
use toolgate_wire::http_text::percent_decode;

/// Which rules a document follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V30,
    /// OpenAPI 3.1, whose schemas are JSON Schema.
    V31,
    /// OpenAPI 3.2 and later.
    V32,
}

/// Why a reference leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It leads to another document.
    #[error("the reference {0} leads out of the document, to what is not read")]
    External(String),
    /// There is nothing at its end, or what is there cannot be parsed.
    #[error("the reference {0} leads nowhere")]
    Missing(String),
    /// It leads back to itself.
    #[error("the reference {0} leads to itself")]
    Cycle(String),
    /// It is longer than references are.
    #[error("the reference {0} has more than {MAX_POINTER_SEGMENTS} steps or {MAX_POINTER_BYTES} bytes")]
    TooLong(String),
    /// Reading the document has taken all the work that it may take.
    #[error("{TOO_MUCH_WORK}")]
    TooMuchWork,
}

/// Why an operation is no tool that comes after too much work.
pub(crate) const TOO_MUCH_WORK: &str = "reading the document takes more work than a document of its size may take";

/// The members of an object or the items of a list, not parsed.
type Members<'a> = Rc<HashMap<String, &'a RawValue>>;

/// A document.
pub(crate) struct Document<'a> {
    pub(crate) version: Version,
    pub(crate) work: WorkBudget<'a>,
    top: Members<'a>,
    /// By the address of the text. Pointers as keys would take the square of their length.
    members: RefCell<HashMap<usize, Option<Members<'a>>>>,
    parsed: RefCell<HashMap<String, Rc<Value>>>,
    /// The bytes of text that may still be kept as parsed values.
    room: Cell<usize>,
}

impl<'a> Document<'a> {
    /// Indexes a JSON text.
    pub(crate) fn new(json: &'a str) -> Result<Self, String> {
        let top: HashMap<String, &RawValue> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let text = |key: &str| top.get(key).and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let version = match (text("openapi"), text("swagger")) {
            (Some(Value::String(version)), _) if version.starts_with("3.0") => Version::V30,
            (Some(Value::String(version)), _) if version.starts_with("3.1") => Version::V31,
            (Some(Value::String(version)), _) if version.starts_with("3.") => Version::V32,
            // A version that is written without quotes in YAML is a number.
            (_, Some(Value::String(version))) if version.starts_with('2') => Version::V2,
            (_, Some(Value::Number(version))) if version.as_f64() == Some(2.0) => Version::V2,
            (Some(Value::Number(version)), _) if version.as_f64() == Some(3.0) => Version::V30,
            (Some(Value::Number(version)), _) if version.as_f64() == Some(3.1) => Version::V31,
            (Some(Value::Number(version)), _) if version.as_f64().is_some_and(|it| it > 3.0 && it < 4.0) => {
                Version::V32
            }
            (Some(version), _) | (None, Some(version)) => {
                return Err(format!("version {version} is not supported: 2.0, 3.0, 3.1 and 3.2 are"));
            }
            (None, None) => return Err("it has neither `openapi` nor `swagger`".to_owned()),
        };
        let (members, parsed, room) = (RefCell::default(), RefCell::default(), Cell::new(json.len()));
        Ok(Self { version, work: WorkBudget::of(json.len()), top: Rc::new(top), members, parsed, room })
    }

    /// A part of the top level, parsed.
    pub(crate) fn top(&self, key: &str) -> Option<Value> {
        serde_json::from_str(self.top.get(key)?.get()).ok()
    }

    /// The documents that were put into this one, not parsed.
    pub(crate) fn other_documents(&self) -> Option<&'a RawValue> {
        self.top.get(crate::bundle::MEMBER).copied()
    }

    /// The path items in the order of the document, parsed one by one.
    pub(crate) fn paths(&self) -> Result<Vec<(String, &'a RawValue)>, String> {
        let Some(raw) = self.top.get("paths") else { return Ok(Vec::new()) };
        // A map keeps no order, and a list of pairs needs a visitor of its own; the order of positions is the same.
        let members: HashMap<String, &'a RawValue> =
            serde_json::from_str(raw.get()).map_err(|error| format!("`paths` is no object: {error}"))?;
        let mut paths: Vec<_> = members.into_iter().collect();
        paths.sort_by_key(|(_, item)| item.get().as_ptr());
        Ok(paths)
    }

    /// Follows references from a value until there is none; gives the value and the pointer of the last reference.
    pub(crate) fn follow(&self, value: Rc<Value>) -> Result<(Rc<Value>, Option<String>), ReferenceError> {
        let mut at = (value, None);
        for _ in 0..MAX_REFERENCE_HOPS {
            let Some(reference) = at.0.get("$ref").and_then(Value::as_str) else { return Ok(at) };
            let pointer = pointer(reference)?;
            let target = self.at(&pointer).ok_or_else(|| self.missing(reference))?;
            at = (target, Some(pointer));
        }
        Err(ReferenceError::Cycle(at.1.unwrap_or_default()))
    }

    /// The same for a value that is read as a whole, which is charged also where it is shared.
    pub(crate) fn follow_whole(&self, value: Rc<Value>) -> Result<(Rc<Value>, Option<String>), ReferenceError> {
        let found = self.follow(value)?;
        if self.work.charge(weight(&found.0)) { Ok(found) } else { Err(ReferenceError::TooMuchWork) }
    }

    /// What describes a content type, which may be a reference (3.2). One that stands in place was charged with what it is
    /// a part of.
    pub(crate) fn media_type(&self, media: &Value) -> Result<Rc<Value>, ReferenceError> {
        let media = Rc::new(media.clone());
        if media.get("$ref").is_none() {
            return Ok(media);
        }
        self.follow_whole(media).map(|(media, _)| media)
    }

    fn missing(&self, reference: &str) -> ReferenceError {
        if self.work.is_exhausted() {
            return ReferenceError::TooMuchWork;
        }
        ReferenceError::Missing(reference.to_owned())
    }

    /// The value at a pointer, parsed once as long as there is room to keep it.
    fn at(&self, pointer: &str) -> Option<Rc<Value>> {
        if let Some(known) = self.parsed.borrow().get(pointer) {
            return Some(Rc::clone(known));
        }
        let raw = self.raw(pointer)?;
        let value: Rc<Value> = Rc::new(self.parse(raw)?);
        if let Some(left) = self.room.get().checked_sub(raw.get().len()) {
            self.room.set(left);
            self.parsed.borrow_mut().insert(pointer.to_owned(), Rc::clone(&value));
        }
        Some(value)
    }

    /// The value at a pointer, parsed for this one use: a schema is converted once.
    pub(crate) fn parse_at(&self, pointer: &str) -> Option<Value> {
        self.parse(self.raw(pointer)?)
    }

    fn parse(&self, raw: &RawValue) -> Option<Value> {
        if self.work.charge(raw.get().len()) { serde_json::from_str(raw.get()).ok() } else { None }
    }

    fn raw(&self, pointer: &str) -> Option<&'a RawValue> {
        let (parent, last) = pointer.rsplit_once('/')?;
        let mut members = Rc::clone(&self.top);
        for token in parent.split('/').skip(1) {
            let raw = *members.get(&*unescaped(token))?;
            members = self.members(raw)?;
        }
        members.get(&*unescaped(last)).copied()
    }

    fn members(&self, raw: &'a RawValue) -> Option<Members<'a>> {
        let address = raw.get().as_ptr().addr();
        if let Some(known) = self.members.borrow().get(&address) {
            return known.clone();
        }
        let members = if self.work.charge(raw.get().len()) { read_members(raw) } else { None };
        self.members.borrow_mut().insert(address, members.clone());
        members
    }
}

/// A step of a pointer as the key that it means.
fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}

fn read_members<'a>(raw: &'a RawValue) -> Option<Members<'a>> {
    match raw.get().as_bytes().first() {
        Some(b'[') => {
            let items: Vec<&'a RawValue> = serde_json::from_str(raw.get()).ok()?;
            Some(Rc::new(items.into_iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()))
        }
        Some(b'{') => serde_json::from_str(raw.get()).ok().map(Rc::new),
        _ => None,
    }
}

/// The pointer of a reference into the same document.
pub(crate) fn pointer(reference: &str) -> Result<String, ReferenceError> {
    let shown = || clipped(reference, 200).into_owned();
    let external = || ReferenceError::External(shown());
    let fragment = reference.strip_prefix('#').ok_or_else(external)?;
    if fragment.len() > MAX_POINTER_BYTES {
        return Err(ReferenceError::TooLong(shown()));
    }
    let decoded = percent_decode(fragment).filter(|it| it.starts_with('/')).ok_or_else(external)?;
    if decoded.matches('/').count() > MAX_POINTER_SEGMENTS {
        return Err(ReferenceError::TooLong(shown()));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"{"openapi":"3.0.3","paths":{"/b":{},"/a/{x}":{"get":{"parameters":[{"name":"x"}]}}},
        "components":{"schemas":{"A":{"type":"string"},"B":{"$ref":"#/components/schemas/A"},
        "C":{"$ref":"#/components/schemas/D"},"D":{"$ref":"#/components/schemas/C"},"a b":{"type":"null"}}}}"##;

    fn follow(reference: &str) -> Result<Value, ReferenceError> {
        let document = Document::new(TEXT).unwrap();
        document.follow(Rc::new(serde_json::json!({ "$ref": reference }))).map(|(value, _)| (*value).clone())
    }

    #[test]
    fn references_lead_to_any_place_of_the_document() {
        assert_eq!(follow("#/components/schemas/B").unwrap(), serde_json::json!({ "type": "string" }));
        assert_eq!(follow("#/components/schemas/a%20b").unwrap(), serde_json::json!({ "type": "null" }));
        assert_eq!(follow("#/paths/~1a~1%7Bx%7D/get/parameters/0").unwrap(), serde_json::json!({ "name": "x" }));
    }

    #[test]
    fn references_that_lead_nowhere_are_errors() {
        let steps = |count: usize| format!("#{}", "/x".repeat(count));
        let (long, longer) = (steps(MAX_POINTER_SEGMENTS), steps(MAX_POINTER_SEGMENTS + 1));
        let wide = format!("#/{}", "x".repeat(MAX_POINTER_BYTES));
        for (reference, expected) in [
            ("#/components/schemas/Z", "leads nowhere"),
            ("#/components/schemas/C", "leads to itself"),
            ("other.yaml#/A", "leads out of the document"),
            ("http://169.254.169.254/x", "leads out of the document"),
            ("#anchor", "leads out of the document"),
            (long.as_str(), "leads nowhere"),
            (longer.as_str(), "more than 64 steps"),
            (wide.as_str(), "or 2048 bytes"),
        ] {
            let found = follow(reference).unwrap_err().to_string();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn what_references_lead_to_is_read_again_within_a_budget() {
        let text = format!(r#"{{"openapi":"3.0.3","x":{{"large":"{}"}}}}"#, "x".repeat(4 << 20));
        let document = Document::new(&text).unwrap();
        let read = (0..1_000).take_while(|_| document.parse_at("/x/large").is_some()).count();
        assert!((crate::bounds::MAX_WORK_FACTOR..100).contains(&read), "{read}");
        let refused = document.follow(Rc::new(serde_json::json!({ "$ref": "#/x/large" })));
        assert_eq!(refused.unwrap_err(), ReferenceError::TooMuchWork);
    }

    #[test]
    fn paths_keep_their_order() {
        let document = Document::new(TEXT).unwrap();
        let paths: Vec<String> = document.paths().unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["/b", "/a/{x}"]);
    }

    #[test]
    fn the_version_decides() {
        for (text, expected) in [
            (r#"{"swagger":"2.0"}"#, Some(Version::V2)),
            (r#"{"openapi":"3.1.0"}"#, Some(Version::V31)),
            (r#"{"openapi":"3.2.0"}"#, Some(Version::V32)),
            (r#"{"openapi":3.1}"#, Some(Version::V31)),
            (r#"{"openapi":3.2}"#, Some(Version::V32)),
            (r#"{"openapi":"4.0.0"}"#, None),
            (r#"{"swagger":"1.2"}"#, None),
            (r#"{"info":{}}"#, None),
            ("[]", None),
        ] {
            assert_eq!(Document::new(text).ok().map(|document| document.version), expected, "{text}");
        }
    }
}
