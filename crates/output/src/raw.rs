//! What a run returned, before the first stage.
//!
//! A returned string is the text it is; any other value is pretty JSON. A string
//! that holds a JSON object or array is what most tools return, so from a size
//! on it is read as that JSON, with the layout it came with.
//!
//! Only places in the input are remembered. The text of a string with escapes is made when it is
//! shown and again when it is kept: a little time, so that it is not held beside what is made of it.

use std::borrow::Cow;

use super::body::{Body, Form};
use crate::results::{Kept, Kind};
use toolgate_json::{Facts, Shape, Value, check, replace_lone_surrogates, unquote};

/// A returned value.
#[derive(Clone, Copy)]
pub(crate) enum Raw<'a> {
    /// The value as JSON text.
    Json(&'a str),
    /// A string as it was spelled in JSON.
    String {
        spelt: &'a str,
        /// Some of it has no place in Rust text.
        lone_surrogates: bool,
        /// Its text is itself a JSON object or array.
        holds_json: bool,
    },
    /// Not JSON at all: shown as it is, since refusing it would lose it.
    Other(&'a str),
}

impl<'a> Raw<'a> {
    /// Reads JSON text, and gives the body for the first stage. Strings longer than `json_above` bytes are looked into
    /// for JSON.
    pub(crate) fn read(returned: &'a str, json_above: usize) -> (Self, Body<'a>) {
        let Some(facts) = check(returned) else {
            return (Self::Other(returned), Body::new(Cow::Borrowed(returned), Form::Text));
        };
        let value = Value::of(returned);
        if value.shape() != Shape::String {
            return (Self::Json(value.text()), Body::new(displayable(value.text(), facts), Form::Pretty));
        }
        let text = unquote(value.text());
        let may_hold_json = text.len() > json_above && text.trim_start().starts_with(['{', '[']);
        let holds_json = may_hold_json && check(&text).is_some();
        // Given as the text it is, also where its escapes are half a surrogate pair.
        let body = Body::new(text, if holds_json { Form::Written } else { Form::Text });
        (Self::String { spelt: value.text(), lone_surrogates: facts.lone_surrogates, holds_json }, body)
    }

    /// The whole, exactly as returned, for the result store.
    pub(crate) fn kept(self) -> Kept<'a> {
        match self {
            Self::Json(json) | Self::String { spelt: json, lone_surrogates: true, .. } => {
                Kept { kind: Kind::Json, text: json.into() }
            }
            Self::String { spelt, holds_json, .. } => {
                Kept { kind: if holds_json { Kind::Json } else { Kind::Text }, text: unquote(spelt) }
            }
            Self::Other(text) => Kept { kind: Kind::Text, text: text.into() },
        }
    }
}

/// JSON that strict parsers take.
fn displayable(json: &str, facts: Facts) -> Cow<'_, str> {
    if facts.lone_surrogates { Cow::Owned(replace_lone_surrogates(json)) } else { Cow::Borrowed(json) }
}
