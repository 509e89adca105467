//! JSON text into the sandbox: small text at once, larger text as lazy records.

use rquickjs::{Ctx, Value};
use toolgate_wire::limits::MAX_JSON_DEPTH;

use super::exotic::{Mutability, Text, length_of, with_wtf8};
use super::lazy::scan::{Fault, expect_end, skip_space, skip_value};
use super::realm::Realm;

/// Text shorter than this is parsed at once: being lazy begins to win between 100 and 300 bytes.
const EAGER_BELOW: usize = 256;
/// What a value has on average, for the account of the work.
const BYTES_PER_VALUE: usize = 16;
/// Bytes of text that `JSON.parse` lets records keep; beyond, it parses at once. One record keeps the whole text that it is
/// from, and a program that parses much to keep little must not pay for it with its memory.
const MAX_PARSED_TEXT: usize = 8 << 20;

/// Why a text did not become a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is not JSON.
    #[error("the text is not JSON (at byte {at})")]
    Syntax {
        /// The offending byte.
        at: usize,
    },
    /// It is nested too deeply.
    #[error("the text is nested deeper than {limit} levels")]
    TooDeep {
        /// The deepest nesting that is taken.
        limit: u32,
    },
    /// Memory ran out; the exception is pending in the context.
    #[error("the text could not be made a value")]
    Thrown,
}

impl From<Fault> for ParseError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Syntax(at) => Self::Syntax { at },
            Fault::Depth => Self::TooDeep { limit: MAX_JSON_DEPTH },
        }
    }
}

impl From<rquickjs::Error> for ParseError {
    fn from(_: rquickjs::Error) -> Self {
        Self::Thrown
    }
}

/// Makes a value of JSON text, in every detail as `JSON.parse` does. Needs [`super::install`] to have run.
///
/// The whole text is checked before a value is made. Larger text is copied into the sandbox's memory; to save the
/// copy, read it into a [`Text`] and use [`from_text`].
pub fn from_json<'js>(ctx: &Ctx<'js>, text: &str) -> Result<Value<'js>, ParseError> {
    if text.len() < EAGER_BELOW || !is_container(text.as_bytes()) {
        eager(ctx, text)
    } else {
        lazy(ctx, Text::copy(ctx, text)?, Mutability::Mutable)
    }
}

/// The same for text that already lies in the sandbox's memory.
pub fn from_text<'js>(ctx: &Ctx<'js>, text: Text<'js>) -> Result<Value<'js>, ParseError> {
    let utf8 = std::str::from_utf8(text.bytes()).map_err(|error| ParseError::Syntax { at: error.valid_up_to() })?;
    if utf8.len() < EAGER_BELOW || !is_container(utf8.as_bytes()) {
        eager(ctx, utf8)
    } else {
        lazy(ctx, text, Mutability::Mutable)
    }
}

/// The same, deeply frozen: every object and array in it is as if `Object.freeze` had been called on it.
///
/// What the program never reads is not made for it: freezing ten thousand records touches none of them.
pub fn frozen_from_text<'js>(ctx: &Ctx<'js>, text: Text<'js>) -> Result<Value<'js>, ParseError> {
    let utf8 = std::str::from_utf8(text.bytes()).map_err(|error| ParseError::Syntax { at: error.valid_up_to() })?;
    if is_container(utf8.as_bytes()) { lazy(ctx, text, Mutability::Frozen) } else { eager(ctx, utf8) }
}

/// What `JSON.parse` gives for a string; None if the interpreter has to parse it, or to say what is wrong with it.
pub(super) fn quick<'js>(ctx: &Ctx<'js>, string: &Value<'js>) -> rquickjs::Result<Option<Value<'js>>> {
    if !string.is_string() || (length_of(string)? as usize) < EAGER_BELOW {
        return Ok(None);
    }
    let Some(realm) = ctx.userdata::<Realm<'js>>() else { return Ok(None) };
    let text = with_wtf8(string, |text| {
        let fits = realm.parsed_text.get().saturating_add(text.len()) <= MAX_PARSED_TEXT;
        let utf8 = std::str::from_utf8(text).ok().filter(|_| fits && is_container(text));
        utf8.map(|text| Text::copy(ctx, text)).transpose()
    })??;
    let Some(text) = text else { return Ok(None) };
    realm.spend(text.bytes().len() / BYTES_PER_VALUE)?;
    match realm.records.parse(ctx, text, Mutability::Mutable, Some(realm.parsed_text.clone())) {
        Ok(value) => Ok(Some(value)),
        Err(Some(_)) => Ok(None),
        Err(None) => Err(rquickjs::Error::Exception),
    }
}

/// Parses the whole text at once.
pub(super) fn eager<'js>(ctx: &Ctx<'js>, text: &str) -> Result<Value<'js>, ParseError> {
    let bytes = text.as_bytes();
    expect_end(bytes, skip_value(bytes, skip_space(bytes, 0), 0)?)?;
    Ok(ctx.json_parse(text)?)
}

/// Makes records over the text, which is UTF-8 and holds an object or an array.
pub(super) fn lazy<'js>(ctx: &Ctx<'js>, text: Text<'js>, mutability: Mutability) -> Result<Value<'js>, ParseError> {
    let records = ctx.userdata::<Realm<'js>>().ok_or(ParseError::Thrown)?.records;
    if u32::try_from(text.bytes().len()).is_err() {
        // Records know places as 32 bits; no memory limit lets such a text in.
        return Err(ParseError::Thrown);
    }
    records.parse(ctx, text, mutability, None).map_err(|fault| fault.map_or(ParseError::Thrown, ParseError::from))
}

fn is_container(text: &[u8]) -> bool {
    matches!(text.get(skip_space(text, 0)), Some(b'{' | b'['))
}
