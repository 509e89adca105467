//! JSON text into the sandbox.

use rquickjs::{Ctx, Value};

/// Why a text did not become a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is not JSON, is nested too deeply, or memory ran out; the exception is pending in the context.
    #[error("the text could not be made a value")]
    Thrown,
}

/// Makes a value of JSON text, in every detail as `JSON.parse` does.
pub fn from_json<'js>(ctx: &Ctx<'js>, text: &str) -> Result<Value<'js>, ParseError> {
    ctx.json_parse(text).map_err(|_| ParseError::Thrown)
}
