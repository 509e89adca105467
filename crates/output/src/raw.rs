//! The returned value before the first stage.
//!
//! A returned string is shown as its text, any other value as JSON in the configured format. Most tools return a string that contains a
//! JSON object or array, so a string above a size is treated as that JSON, with its own layout.
//!
//! Only slices of the input are stored. A string with escapes is decoded when it is shown and again when it is kept: this
//! costs time and saves the memory of a copy.

use std::borrow::Cow;

use super::body::{Body, BodyForm};
use super::format::OutputFormat;
use crate::results::{Kept, Kind};
use toolgate_json::{Shape, TextFacts, Value, check, replace_lone_surrogates, unquote};

/// A returned value.
#[derive(Clone, Copy)]
pub(crate) enum Raw<'a> {
    /// The value as JSON text.
    Json(&'a str),
    /// A string in its JSON spelling.
    String {
        spelt: &'a str,
        /// It has lone surrogates, which a Rust string cannot contain.
        lone_surrogates: bool,
        /// Its text is a JSON object or array.
        holds_json: bool,
    },
    /// Not JSON: shown unchanged.
    Other(&'a str),
}

impl<'a> Raw<'a> {
    /// Reads JSON text and returns the body for the first stage. Strings longer than `json_above` bytes are checked for
    /// JSON.
    pub(crate) fn read(returned: &'a str, json_above: usize, format: OutputFormat) -> (Self, Body<'a>) {
        let Some(facts) = check(returned) else {
            return (Self::Other(returned), Body::new(Cow::Borrowed(returned), BodyForm::Text));
        };
        let value = Value::of(returned);
        if value.shape() != Shape::String {
            return (Self::Json(value.text()), format.body(displayable(value.text(), facts)));
        }
        let text = unquote(value.text());
        let may_hold_json = text.len() > json_above && text.trim_start().starts_with(['{', '[']);
        let holds_json = may_hold_json && check(&text).is_some();
        // Shown as text even if its escapes include lone surrogates.
        let body = Body::new(text, if holds_json { BodyForm::Written } else { BodyForm::Text });
        (Self::String { spelt: value.text(), lone_surrogates: facts.lone_surrogates, holds_json }, body)
    }

    /// The full result, exactly as returned, for the result store.
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

/// JSON without lone surrogates, which strict parsers reject.
fn displayable(json: &str, facts: TextFacts) -> Cow<'_, str> {
    if facts.lone_surrogates { Cow::Owned(replace_lone_surrogates(json)) } else { Cow::Borrowed(json) }
}
