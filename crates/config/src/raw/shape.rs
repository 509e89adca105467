//! How a tree becomes the raw types, and how these describe themselves to editors.
//!
//! A section is declared once, by `section!`: from that one list come the struct, its reader
//! (which reports every unknown key and wrong kind, and goes on) and its JSON Schema.

use std::marker::PhantomData;

use serde_json::{Map, Value as Json, json};

use crate::problem::Problem;
use crate::text::tree::{Entry, Node, Span, Value};
use crate::text::{Source, join};
use crate::values::Setting;

/// Where in the file, by bytes and by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The bytes.
    pub span: Span,
    /// The setting, such as `toolgate.http.keys[0].hash`.
    pub path: String,
}

/// A value with its place.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// What was written.
    pub value: T,
    /// Where.
    pub place: Place,
}

/// Text (or a number) that is to become a `T` once variables are filled in. Not shown: it may be a secret.
#[derive(Clone)]
pub struct Written<T> {
    /// As in the file.
    pub text: String,
    kind: PhantomData<T>,
}

impl<T> std::fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Written(…)")
    }
}

/// Text of any scalar: `"8080"`, `8080` and `true` are all good values for an environment variable.
pub type Scalar = Written<AnyScalar>;

/// See [`Scalar`].
#[derive(Debug, Clone, Copy)]
pub struct AnyScalar;

/// JSON that is passed on as it is.
#[derive(Debug, Clone)]
pub struct Verbatim(pub Json);

/// Entries under names of the user's choice, in the order of the file.
#[derive(Debug, Clone)]
pub struct Table<T>(pub Vec<(At<String>, At<T>)>);

/// Collects what is wrong while shapes are read.
pub struct Reader<'a> {
    pub(crate) source: &'a Source,
    pub(crate) problems: Vec<Problem>,
}

impl Reader<'_> {
    /// Notes an error at a place.
    pub(crate) fn wrong(&mut self, place: &Place, message: impl Into<String>) {
        let problem = self.problem(place, message);
        self.problems.push(problem);
    }

    fn problem(&self, place: &Place, message: impl Into<String>) -> Problem {
        let at = self.source.position(place.span.start);
        Problem::of_file(self.source.file(), message).at(at).on(&place.path)
    }

    fn wrong_kind(&mut self, node: &Node, place: &Place, expected: &str) {
        self.wrong(place, format!("should be {expected}, not {}", node.kind()));
    }
}

/// A raw type: it can be read from a node and can describe itself.
pub trait Shape: Sized {
    /// Reads it, noting problems; `None` if nothing usable is there.
    fn read(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Self>;

    /// What an editor should accept.
    fn schema() -> Json;
}

impl Shape for bool {
    fn read(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            Value::Bool(flag) => Some(flag),
            _ => {
                reader.wrong_kind(node, place, "true or false");
                None
            }
        }
    }

    fn schema() -> Json {
        json!({"type": "boolean"})
    }
}

impl Shape for u64 {
    fn read(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Self> {
        let whole = match &node.value {
            Value::Number(number) => number.as_u64(),
            _ => None,
        };
        if whole.is_none() {
            reader.wrong(place, "should be a whole number, 0 or more");
        }
        whole
    }

    fn schema() -> Json {
        json!({"type": "integer", "minimum": 0})
    }
}

impl<T: Setting> Shape for Written<T> {
    fn read(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Self> {
        let text = match &node.value {
            Value::String(text) => text.clone(),
            Value::Number(_) if T::NUMBERS => reader.source.slice(node.span).to_owned(),
            _ => {
                reader.wrong_kind(node, place, if T::NUMBERS { "text or a number" } else { "text" });
                return None;
            }
        };
        Some(Self { text, kind: PhantomData })
    }

    fn schema() -> Json {
        // What a variable will bring, no schema can know.
        json!({"anyOf": [T::schema(), {"type": "string", "pattern": r"\$\{"}]})
    }
}

impl Setting for AnyScalar {
    fn parse(_: &str) -> Result<Self, String> {
        Ok(Self)
    }

    fn schema() -> Json {
        json!({"type": ["string", "number", "boolean"]})
    }
}

/// Environment and headers: every scalar is text there, spelt as in the file.
fn scalar(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Scalar> {
    let text = match &node.value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => reader.source.slice(node.span).to_owned(),
        Value::Null | Value::List(_) | Value::Map(_) => {
            reader.wrong_kind(node, place, "text");
            return None;
        }
    };
    Some(Written { text, kind: PhantomData })
}

/// A table whose values are any scalars.
#[derive(Debug, Clone)]
pub struct Texts(pub Vec<(At<String>, At<Scalar>)>);

impl Shape for Texts {
    fn read(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Self> {
        rows(node, place, reader, scalar).map(Self)
    }

    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": AnyScalar::schema()})
    }
}

impl<T: Shape> Shape for Table<T> {
    fn read(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Self> {
        rows(node, place, reader, T::read).map(Self)
    }

    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": T::schema()})
    }
}

type Rows<T> = Vec<(At<String>, At<T>)>;

fn rows<T>(
    node: &Node,
    place: &Place,
    reader: &mut Reader<'_>,
    read: fn(&Node, &Place, &mut Reader<'_>) -> Option<T>,
) -> Option<Rows<T>> {
    let Some(entries) = node.entries() else {
        reader.wrong_kind(node, place, "an object");
        return None;
    };
    let row = |entry: &Entry| {
        let path = join(&place.path, &entry.key);
        let key = At { value: entry.key.clone(), place: Place { span: entry.key_span, path: path.clone() } };
        let place = Place { span: entry.node.span, path };
        let value = read(&entry.node, &place, reader)?;
        Some((key, At { value, place }))
    };
    Some(entries.iter().filter_map(row).collect())
}

impl<T: Shape> Shape for Vec<At<T>> {
    fn read(node: &Node, place: &Place, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            reader.wrong_kind(node, place, "a list");
            return None;
        };
        let item = |(index, node): (usize, &Node)| {
            let place = Place { span: node.span, path: format!("{}[{index}]", place.path) };
            let value = T::read(node, &place, reader)?;
            Some(At { value, place })
        };
        Some(items.iter().enumerate().filter_map(item).collect())
    }

    fn schema() -> Json {
        json!({"type": "array", "items": T::schema()})
    }
}

impl Shape for Verbatim {
    fn read(node: &Node, _: &Place, _: &mut Reader<'_>) -> Option<Self> {
        Some(Self(node.to_json()))
    }

    fn schema() -> Json {
        json!(true)
    }
}

/// What to do with a key that a section does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It is ours, so it is a mistake.
    Refused,
    /// Another program's file may carry it; say that it has no effect.
    Ignored,
}

/// Reports the keys that are not in `known`.
pub(crate) fn report_unknown(node: &Node, place: &Place, known: &[&str], unknown: Unknown, reader: &mut Reader<'_>) {
    for entry in node.entries().unwrap_or_default() {
        if known.contains(&entry.key.as_str()) {
            continue;
        }
        let place = Place { span: entry.key_span, path: join(&place.path, &entry.key) };
        let near = closest(&entry.key, known).map(|near| format!("did you mean {near}?"));
        let problem = match unknown {
            Unknown::Refused => {
                let help = near.unwrap_or_else(|| format!("the settings here are {}", known.join(", ")));
                reader.problem(&place, "is not a setting").help(help)
            }
            Unknown::Ignored => {
                let problem = reader.problem(&place, "is not known here and has no effect").warning();
                Problem { help: near, ..problem }
            }
        };
        reader.problems.push(problem);
    }
}

/// The known name that was most likely meant.
pub(crate) fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = plain(name);
    if wanted.len() > 64 {
        return None;
    }
    let near = known.iter().map(|known| (distance(&wanted, &plain(known)), *known));
    let allowed = (wanted.chars().count() / 3).clamp(1, 2);
    near.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Levenshtein, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&b) {
            let cost = corner + usize::from(letter != *other);
            corner = *cell;
            left = cost.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Reads one field of a section.
pub(crate) fn field<T: Shape>(node: &Node, place: &Place, key: &str, reader: &mut Reader<'_>) -> Option<At<T>> {
    let node = node.get(key)?;
    let place = Place { span: node.span, path: join(&place.path, key) };
    let value = T::read(node, &place, reader)?;
    Some(At { value, place })
}

/// The schema of a section from those of its fields.
pub(crate) fn object_schema(about: &str, unknown: Unknown, fields: &[(&str, &str, Json)]) -> Json {
    let properties: Map<String, Json> = fields
        .iter()
        .map(|(key, about, schema)| {
            let mut schema = schema.clone();
            if let Json::Object(members) = &mut schema {
                members.insert("description".to_owned(), json!(about.trim()));
            } else {
                schema = json!({"description": about.trim()});
            }
            ((*key).to_owned(), schema)
        })
        .collect();
    let open = unknown == Unknown::Ignored;
    json!({"type": "object", "description": about.trim(), "properties": properties, "additionalProperties": open})
}

/// Declares a section: `refused` or `ignored` says what becomes of unknown keys; a field whose key is not its
/// Rust name has it before the field.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $unknown:ident $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident $(= $key:literal)? : $kind:ty,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: Option<$crate::raw::shape::At<$kind>>,)+
        }

        impl $name {
            /// The keys that may stand in it.
            pub const KEYS: &'static [&'static str] = &[$(section!(@key $field $($key)?)),+];
        }

        impl $crate::raw::shape::Shape for $name {
            fn read(
                node: &$crate::text::tree::Node,
                place: &$crate::raw::shape::Place,
                reader: &mut $crate::raw::shape::Reader<'_>,
            ) -> Option<Self> {
                if node.entries().is_none() {
                    reader.wrong(place, format!("should be an object, not {}", node.kind()));
                    return None;
                }
                let unknown = $crate::raw::shape::Unknown::$unknown;
                $crate::raw::shape::report_unknown(node, place, Self::KEYS, unknown, reader);
                Some(Self {
                    $($field: $crate::raw::shape::field(node, place, section!(@key $field $($key)?), reader),)+
                })
            }

            fn schema() -> serde_json::Value {
                $crate::raw::shape::object_schema(
                    concat!($($about,)+),
                    $crate::raw::shape::Unknown::$unknown,
                    &[$((
                        section!(@key $field $($key)?),
                        concat!($($doc,)+),
                        <$kind as $crate::raw::shape::Shape>::schema(),
                    )),+],
                )
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}
pub(crate) use section;
