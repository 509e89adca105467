//! Reads the raw types from a tree, and generates their JSON Schema.
//!
//! `section!` declares a section once and generates the struct, its reader (which reports every unknown key and every
//! value of the wrong type) and its JSON Schema.

use std::marker::PhantomData;

use serde_json::{Map, Value as Json, json};

use crate::problem::Problem;
use crate::text::tree::{Node, TextSpan, Value};
use crate::text::{Source, join};
use crate::values::Setting;

/// A location in the file, as a byte range and as a setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Location {
    /// The byte range.
    pub(crate) span: TextSpan,
    /// The setting, such as `toolgate.http.keys[0].hash`.
    pub(crate) path: String,
}

/// A value with its location.
#[derive(Debug, Clone)]
pub(crate) struct Located<T> {
    /// The value.
    pub(crate) value: T,
    /// Its location.
    pub(crate) place: Location,
}

/// A string (or number) that is parsed to a `T` after substitution. Not printed, because it may be a secret.
#[derive(Clone)]
pub(crate) struct RawText<T> {
    /// As written in the file.
    pub(crate) text: String,
    kind: PhantomData<T>,
}

impl<T> std::fmt::Debug for RawText<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawText(…)")
    }
}

/// Any scalar as a string: `"8080"`, `8080` and `true` are valid values of an environment variable.
pub(crate) type Scalar = RawText<AnyScalar>;

/// See [`Scalar`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnyScalar;

/// A JSON value that is used as it is.
#[derive(Debug, Clone)]
pub(crate) struct RawJson(pub(crate) Json);

/// Entries with user-defined names, in the order of the file; then the names of entries that cannot be read, whose problems
/// are reported.
#[derive(Debug, Clone)]
pub(crate) struct Table<T>(pub(crate) Vec<(Located<String>, Located<T>)>, pub(crate) Vec<Located<String>>);

/// Collects problems while settings are read.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a Source,
    pub(crate) problems: Vec<Problem>,
}

impl Reader<'_> {
    /// Adds an error.
    pub(crate) fn wrong(&mut self, place: &Location, message: impl Into<String>) {
        let problem = self.problem(place, message);
        self.problems.push(problem);
    }

    fn problem(&self, place: &Location, message: impl Into<String>) -> Problem {
        let at = self.source.position(place.span.start);
        Problem::of_file(self.source.file(), message).at(at).on(&place.path)
    }

    fn wrong_kind(&mut self, node: &Node, place: &Location, expected: &str) {
        self.wrong(place, format!("must be {expected}, not {}", node.kind()));
    }
}

/// A raw type: can be read from a node and has a JSON Schema.
pub(crate) trait RawSetting: Sized {
    /// Reads the value and reports problems; `None` if it is unusable.
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self>;

    /// Its JSON Schema.
    fn schema() -> Json;
}

impl RawSetting for bool {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
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

impl RawSetting for u64 {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        let whole = match &node.value {
            Value::Number(number) => number.as_u64(),
            _ => None,
        };
        if whole.is_none() {
            reader.wrong(place, "must be an integer, 0 or greater");
        }
        whole
    }

    fn schema() -> Json {
        json!({"type": "integer", "minimum": 0})
    }
}

impl<T: Setting> RawSetting for RawText<T> {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        let text = match &node.value {
            Value::String(text) => text.clone(),
            Value::Number(_) if T::NUMBERS => reader.source.slice(node.span).to_owned(),
            _ => {
                reader.wrong_kind(node, place, if T::NUMBERS { "a string or a number" } else { "a string" });
                return None;
            }
        };
        Some(Self { text, kind: PhantomData })
    }

    fn schema() -> Json {
        // The schema cannot validate the value of a variable.
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

/// Reads an environment variable or header: any scalar, as spelt in the file.
pub(crate) fn scalar(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Scalar> {
    let text = match &node.value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => reader.source.slice(node.span).to_owned(),
        Value::Null | Value::List(_) | Value::Map(_) => {
            reader.wrong_kind(node, place, "a string");
            return None;
        }
    };
    Some(RawText { text, kind: PhantomData })
}

/// A table of scalars.
#[derive(Debug, Clone)]
pub(crate) struct StringMap(pub(crate) Vec<(Located<String>, Located<Scalar>)>);

impl StringMap {
    /// The schema of one value.
    pub(crate) fn entry_schema() -> Json {
        AnyScalar::schema()
    }
}

impl RawSetting for StringMap {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        rows(node, place, reader, scalar).map(|(rows, _)| Self(rows))
    }

    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": AnyScalar::schema()})
    }
}

impl<T: RawSetting> RawSetting for Table<T> {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        rows(node, place, reader, T::read).map(|(rows, unreadable)| Self(rows, unreadable))
    }

    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": T::schema()})
    }
}

type Rows<T> = Vec<(Located<String>, Located<T>)>;

/// The rows of a table, and the names of those that cannot be read.
fn rows<T>(
    node: &Node,
    place: &Location,
    reader: &mut Reader<'_>,
    read: fn(&Node, &Location, &mut Reader<'_>) -> Option<T>,
) -> Option<(Rows<T>, Vec<Located<String>>)> {
    let Some(entries) = node.entries() else {
        reader.wrong_kind(node, place, "an object");
        return None;
    };
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    for entry in entries {
        let path = join(&place.path, &entry.key);
        let key = Located { value: entry.key.clone(), place: Location { span: entry.key_span, path: path.clone() } };
        let place = Location { span: entry.node.span, path };
        match read(&entry.node, &place, reader) {
            Some(value) => rows.push((key, Located { value, place })),
            None => unreadable.push(key),
        }
    }
    Some((rows, unreadable))
}

impl<T: RawSetting> RawSetting for Vec<Located<T>> {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            reader.wrong_kind(node, place, "a list");
            return None;
        };
        let item = |(index, node): (usize, &Node)| {
            let place = Location { span: node.span, path: format!("{}[{index}]", place.path) };
            let value = T::read(node, &place, reader)?;
            Some(Located { value, place })
        };
        Some(items.iter().enumerate().filter_map(item).collect())
    }

    fn schema() -> Json {
        json!({"type": "array", "items": T::schema()})
    }
}

impl RawSetting for RawJson {
    fn read(node: &Node, _: &Location, _: &mut Reader<'_>) -> Option<Self> {
        Some(Self(node.to_json()))
    }

    fn schema() -> Json {
        json!(true)
    }
}

/// How a section treats an unknown key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// An error: the section is Toolgate's.
    Refused,
    /// A warning: the section is shared with other programs.
    Ignored,
}

/// Reports the keys that are not in `known`.
pub(crate) fn report_unknown(node: &Node, place: &Location, known: &[&str], unknown: Unknown, reader: &mut Reader<'_>) {
    for entry in node.entries().unwrap_or_default() {
        if known.contains(&entry.key.as_str()) {
            continue;
        }
        let place = Location { span: entry.key_span, path: join(&place.path, &entry.key) };
        let near = closest(&entry.key, known).map(|near| format!("did you mean {near}?"));
        let problem = match unknown {
            Unknown::Refused => {
                let help = near.unwrap_or_else(|| format!("the settings of this section are {}", known.join(", ")));
                reader.problem(&place, "unknown setting").help(help)
            }
            Unknown::Ignored => {
                let problem = reader.problem(&place, "unknown setting; it has no effect").warning();
                Problem { help: near, ..problem }
            }
        };
        reader.problems.push(problem);
    }
}

/// The known name nearest to `name`, if at most two letters differ (one of up to five). A swap of neighbours counts once.
pub fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = plain(name);
    if wanted.len() > 64 {
        return None;
    }
    let near = known.iter().map(|known| (strsim::osa_distance(&wanted, &plain(known)), *known));
    let allowed = (wanted.chars().count() / 3).clamp(1, 2);
    near.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Reads one field of a section.
pub(crate) fn field<T: RawSetting>(
    node: &Node,
    place: &Location,
    key: &str,
    reader: &mut Reader<'_>,
) -> Option<Located<T>> {
    let node = node.get(key)?;
    let place = Location { span: node.span, path: join(&place.path, key) };
    let value = T::read(node, &place, reader)?;
    Some(Located { value, place })
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

/// Declares a section. `Refused` or `Ignored` is the treatment of unknown keys; a field whose key differs from its Rust
/// name is written `field = "key"`.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $unknown:ident $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident $(= $key:literal)? : $kind:ty,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Default)]
        #[allow(dead_code, reason = "some settings of other clients are accepted and have no effect")]
        pub(crate) struct $name {
            $($(#[doc = $doc])+ pub(crate) $field: Option<$crate::raw::reader::Located<$kind>>,)+
        }

        impl $name {
            /// The keys of the section.
            pub(crate) const KEYS: &'static [&'static str] = &[$(section!(@key $field $($key)?)),+];
        }

        impl $crate::raw::reader::RawSetting for $name {
            fn read(
                node: &$crate::text::tree::Node,
                place: &$crate::raw::reader::Location,
                reader: &mut $crate::raw::reader::Reader<'_>,
            ) -> Option<Self> {
                if node.entries().is_none() {
                    reader.wrong(place, format!("must be an object, not {}", node.kind()));
                    return None;
                }
                let unknown = $crate::raw::reader::Unknown::$unknown;
                $crate::raw::reader::report_unknown(node, place, Self::KEYS, unknown, reader);
                Some(Self {
                    $($field: $crate::raw::reader::field(node, place, section!(@key $field $($key)?), reader),)+
                })
            }

            fn schema() -> serde_json::Value {
                $crate::raw::reader::object_schema(
                    concat!($($about,)+),
                    $crate::raw::reader::Unknown::$unknown,
                    &[$((
                        section!(@key $field $($key)?),
                        concat!($($doc,)+),
                        <$kind as $crate::raw::reader::RawSetting>::schema(),
                    )),+],
                )
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}
pub(crate) use section;
