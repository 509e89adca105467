//! Writes values in the styles of parameters and of fields of forms.
//!
//! A text is escaped for the place where it stands, or written as it is where the place takes it so; then the place
//! itself refuses what it cannot have. What becomes of the pieces is not decided here: `encode` and `multipart` put them
//! into a request.

use serde_json::Value;

use crate::encode::{ArgumentError, unfit};
use crate::operation::{Encoding, Style};

/// How texts are written where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escaping {
    /// As they are.
    Off,
    /// Percent-encoded but for letters, digits and `-._~`.
    All,
    /// The same, but these reserved characters stay, and so do percent-encoded triples.
    Reserved(&'static [u8]),
}

impl Escaping {
    /// How a query is written: reserved characters stay that cannot end a value.
    pub(crate) fn in_query(allow_reserved: bool) -> Self {
        if allow_reserved { Self::Reserved(b":/?@!$'()*,;") } else { Self::All }
    }

    /// How a path is written: reserved characters stay that a segment can have.
    pub(crate) fn in_path(allow_reserved: bool) -> Self {
        if allow_reserved { Self::Reserved(b":@!$&'()*+,;=") } else { Self::All }
    }

    /// How a cookie of the form style is written: reserved characters stay that a cookie can have.
    pub(crate) fn in_cookie(allow_reserved: bool) -> Self {
        if allow_reserved { Self::Reserved(b":/?#[]@!$&'()*+") } else { Self::All }
    }

    pub(crate) fn text(self, text: &str) -> String {
        match self {
            Self::Off => text.to_owned(),
            Self::All => escape(text),
            Self::Reserved(kept) => escape_reserved(text, kept),
        }
    }

    /// What stands between the pieces of a value.
    pub(crate) fn separator(self, style: Style) -> String {
        match (self, style.separator()) {
            (Self::Off, separator) | (_, separator @ ',') => separator.to_string(),
            (_, separator) => escape(&separator.to_string()),
        }
    }
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub(crate) fn escape(text: &str) -> String {
    escape_but(text, b"")
}

/// The same, but keeps further characters.
pub(crate) fn escape_but(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    text.bytes().for_each(|byte| push_escaped(&mut escaped, byte, kept));
    escaped
}

/// The same, but also keeps percent-encoded triples.
fn escape_reserved(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match triple_at(bytes, at) {
            Some(_) => escaped.push('%'),
            None => push_escaped(&mut escaped, *byte, kept),
        }
    }
    escaped
}

fn push_escaped(escaped: &mut String, byte: u8, kept: &[u8]) {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
        escaped.push(char::from(byte));
    } else {
        escaped.push_str(&format!("%{byte:02X}"));
    }
}

/// The byte of a percent-encoded triple that begins here.
fn triple_at(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'%', high, low] = *bytes.get(at..at.checked_add(3)?)? else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// A text with its percent-encoded triples decoded; a `%` that begins none stays.
pub(crate) fn with_decoded_triples(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let triple = triple_at(bytes, at);
        decoded.push(triple.unwrap_or(*byte));
        at += if triple.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// A scalar as text; a list or an object inside another one as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The pieces of a value in one text: a scalar, the items of a list, the keys and values of an object, which are pairs
/// if it is exploded.
pub(crate) fn joined(value: &Value, explode: bool, separator: &str, write: &mut dyn FnMut(&str) -> String) -> String {
    let pieces: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| write(&text_of(item))).collect(),
        Value::Object(members) => {
            let between = if explode { "=" } else { separator };
            let member = |(key, value): (&String, &Value)| {
                let key = write(key);
                format!("{key}{between}{}", write(&text_of(value)))
            };
            members.iter().map(member).collect()
        }
        scalar => vec![write(&text_of(scalar))],
    };
    pieces.join(separator)
}

/// The names and texts that a value is in a query, a form or a cookie; none for an empty list or object.
pub(crate) fn named_texts(
    name: &str,
    value: &Value,
    style: Style,
    explode: bool,
    escaping: Escaping,
) -> Vec<(String, String)> {
    // The name itself is not a value, so what is reserved does not stay in it.
    let name = if escaping == Escaping::Off { name.to_owned() } else { escape(name) };
    let text = |value: &Value| escaping.text(&text_of(value));
    match value {
        Value::Object(_) | Value::Array(_) if style == Style::DeepObject => deep(&name, value, escaping),
        Value::Array(items) if explode => items.iter().map(|item| (name.clone(), text(item))).collect(),
        Value::Object(members) if explode => {
            members.iter().map(|(key, value)| (escaping.text(key), text(value))).collect()
        }
        Value::Array(items) if items.is_empty() => Vec::new(),
        Value::Object(members) if members.is_empty() => Vec::new(),
        _ => {
            let separator = escaping.separator(style);
            vec![(name, joined(value, false, &separator, &mut |text| escaping.text(text)))]
        }
    }
}

/// `name[key]` for each value, as deep as the value is.
fn deep(name: &str, value: &Value, escaping: Escaping) -> Vec<(String, String)> {
    match value {
        Value::Object(members) => {
            let inner = |key: &str| format!("{name}[{}]", escaping.text(key));
            members.iter().flat_map(|(key, value)| deep(&inner(key), value, escaping)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(at, value)| deep(&format!("{name}[{at}]"), value, escaping)).collect()
        }
        Value::Null => Vec::new(),
        scalar => vec![(name.to_owned(), escaping.text(&text_of(scalar)))],
    }
}

/// The pairs of a query or of a form.
pub(crate) fn query_pairs(name: &str, value: &Value, encoding: Encoding) -> Vec<String> {
    match encoding {
        Encoding::Json => vec![format!("{}={}", escape(name), escape(&value.to_string()))],
        Encoding::Style { style, explode, allow_reserved } => {
            let texts = named_texts(name, value, style, explode, Escaping::in_query(allow_reserved));
            texts.into_iter().map(|(name, text)| format!("{name}={text}")).collect()
        }
    }
}

/// Refuses an item that contains the separator of its list, where nothing tells the two apart: the separator is escaped
/// like the item, or neither is.
pub(crate) fn check_separator(
    argument: &str,
    value: &Value,
    encoding: Encoding,
    escaping: Escaping,
) -> Result<(), ArgumentError> {
    let separator = match encoding {
        Encoding::Style { style: style @ (Style::Space | Style::Pipe | Style::Tab), explode: false, .. } => {
            style.separator()
        }
        Encoding::Style { style: Style::Form | Style::Cookie, explode: false, .. } if escaping == Escaping::Off => ',',
        Encoding::Style { style: Style::Form | Style::Simple, explode: false, allow_reserved: true } => ',',
        Encoding::Style { .. } | Encoding::Json => return Ok(()),
    };
    let has_it = |value: &Value| text_of(value).contains(separator);
    let is_unfit = match value {
        Value::Array(items) => items.iter().any(has_it),
        Value::Object(members) => members.iter().any(|(key, value)| key.contains(separator) || has_it(value)),
        _ => false,
    };
    if is_unfit {
        return Err(unfit(argument, format!("has an item with {separator:?}, which separates its items")));
    }
    Ok(())
}
