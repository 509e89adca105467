//! Values out of the sandbox: one JavaScript value to JSON text.
//!
//! Native code on purpose. A redefined `JSON.stringify`, a `toJSON`, a getter or a
//! Proxy can change only the guest's own value; what they throw is the
//! guest's exception. The walk keeps its own stack and counts bytes as it
//! goes, so neither depth nor size of a value can exhaust stack or memory.
//!
//! It differs from `JSON.stringify` where that would lose data silently: Map,
//! Set, typed arrays and errors have a form, and a function, a symbol, a
//! promise or a cycle is an error that names the path, or a marker where the
//! result of a run must not be lost for it.

mod keys;
mod path;
mod walk;

pub(crate) use keys::KeyCache;

use rquickjs::{Ctx, Value};

use super::realm::Realm;

/// What becomes of a value that is nested deeper than [`Caps::max_depth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthPolicy {
    /// It is replaced by a text such as `[depth limit reached: object]`.
    Marker,
    /// The whole value is refused.
    Error,
}

/// What becomes of a value that has no JSON form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwritablePolicy {
    /// It is replaced by a text such as `[Function]`.
    Marker,
    /// The whole value is refused.
    Error,
}

/// The bounds within which a value is written.
#[derive(Clone, Copy)]
pub struct Caps<'a> {
    /// The longest JSON text, in bytes.
    pub max_bytes: usize,
    /// How many containers may be nested; the outermost is 1. Never more than [`toolgate_wire::limits::MAX_JSON_DEPTH`].
    pub max_depth: Option<u32>,
    /// What happens beyond `max_depth`.
    pub depth_policy: DepthPolicy,
    /// What happens to functions, symbols, BigInts, promises and cycles.
    pub unwritable_policy: UnwritablePolicy,
    /// What the value is called in messages, such as `result`.
    pub root: &'a str,
    /// Asked now and then; true ends the walk. A deadline belongs here.
    pub should_stop: &'a dyn Fn() -> bool,
}

/// What makes a single value impossible to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// An integer without a JSON form.
    BigInt,
    /// A symbol used as a value.
    Symbol,
    /// Anything callable.
    Function,
    /// A promise that was not awaited.
    Promise,
    /// An object that contains itself; the path says where it began.
    Cycle(String),
}

impl std::fmt::Display for Unwritable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BigInt => f.write_str("is a BigInt; use String(x) or Number(x)"),
            Self::Symbol => f.write_str("is a Symbol; use its description or a string"),
            Self::Function => f.write_str("is a function; call it or leave it out"),
            Self::Promise => f.write_str("is a Promise; await it first"),
            Self::Cycle(start) => write!(f, "is a cycle back to {start}; return a tree"),
        }
    }
}

/// Why a value has no JSON text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SerialiseError {
    /// A part of it has no JSON form.
    #[error("{path} {what}")]
    Unserialisable {
        /// Where, such as `result.items[3].id`.
        path: String,
        /// What stands there.
        what: Unwritable,
    },
    /// Its text is longer than allowed.
    #[error("the value is larger than {limit} bytes of JSON")]
    TooLarge {
        /// The allowed length in bytes.
        limit: usize,
    },
    /// It is nested deeper than allowed.
    #[error("{path} is nested deeper than {limit} levels")]
    TooDeep {
        /// Where the limit was reached.
        path: String,
        /// The allowed number of levels.
        limit: u32,
    },
    /// The caller's `should_stop` returned true.
    #[error("stopped before the value was written")]
    Stopped,
    /// Guest code threw (or memory ran out); the exception is pending in the context.
    #[error("the value threw while it was read")]
    Thrown,
}

impl From<rquickjs::Error> for SerialiseError {
    fn from(_: rquickjs::Error) -> Self {
        Self::Thrown
    }
}

/// Writes `value` as JSON text. Needs [`super::install`] to have run in this context.
pub fn to_json<'js>(ctx: &Ctx<'js>, value: Value<'js>, caps: &Caps<'_>) -> Result<String, SerialiseError> {
    let realm = ctx.userdata::<Realm<'js>>().ok_or(SerialiseError::Thrown)?;
    let bytes = walk::Walk::new(&realm, caps).run(value)?;
    // Only quoted text and ASCII went in, and quoting escapes what is not UTF-8.
    String::from_utf8(bytes).map_err(|_| SerialiseError::Thrown)
}
