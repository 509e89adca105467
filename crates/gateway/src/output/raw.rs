//! What a run returned, before the first stage.
//!
//! A returned string is the text it is; any other value is pretty JSON. A string
//! that holds a JSON object or array is what most tools return, so from a size
//! on it is read as that JSON, with the layout it came with.

use std::borrow::Cow;

use super::body::{Body, Form};
use super::json::{Facts, Shape, Value, check, replace_lone_surrogates, unquote};
use crate::store::results::{Kept, Kind};

/// A returned value.
pub(crate) enum Raw<'a> {
    /// The value as JSON text.
    Json(&'a str, Facts),
    /// The text of a returned string.
    String {
        text: Cow<'a, str>,
        /// The string as it was spelled in JSON, if some of it has no place in Rust text.
        exact: Option<&'a str>,
        /// Set if the text is itself a JSON object or array.
        holds_json: Option<Facts>,
    },
    /// Not JSON at all: shown as it is, since refusing it would lose it.
    Other(&'a str),
}

impl<'a> Raw<'a> {
    /// Reads JSON text. Strings longer than `json_above` bytes are looked into for JSON.
    pub(crate) fn read(returned: &'a str, json_above: usize) -> Self {
        let Some(facts) = check(returned) else { return Self::Other(returned) };
        let value = Value::of(returned);
        if value.shape() != Shape::String {
            return Self::Json(value.text(), facts);
        }
        let text = unquote(value.text());
        let may_hold_json = text.len() > json_above && text.trim_start().starts_with(['{', '[']);
        Self::String {
            holds_json: if may_hold_json { check(&text) } else { None },
            exact: facts.lone_surrogates.then_some(value.text()),
            text,
        }
    }

    /// The text for the first stage.
    pub(crate) fn body(&self) -> Body<'_> {
        match self {
            Self::Json(json, facts) => Body::new(displayable(json, *facts), Form::Pretty),
            Self::String { text, holds_json: Some(facts), .. } => Body::new(displayable(text, *facts), Form::Written),
            Self::String { text, .. } => Body::new(Cow::Borrowed(text), Form::Text),
            Self::Other(text) => Body::new(Cow::Borrowed(text), Form::Text),
        }
    }

    /// The whole, exactly as returned, for the result store.
    pub(crate) fn into_kept(self) -> Kept<'a> {
        match self {
            Self::Json(json, _) | Self::String { exact: Some(json), .. } => {
                Kept { kind: Kind::Json, text: json.into() }
            }
            Self::String { text, holds_json: Some(_), .. } => Kept { kind: Kind::Json, text },
            Self::String { text, .. } => Kept { kind: Kind::Text, text },
            Self::Other(text) => Kept { kind: Kind::Text, text: text.into() },
        }
    }
}

/// JSON that strict parsers take.
fn displayable(json: &str, facts: Facts) -> Cow<'_, str> {
    if facts.lone_surrogates { Cow::Owned(replace_lone_surrogates(json)) } else { Cow::Borrowed(json) }
}
