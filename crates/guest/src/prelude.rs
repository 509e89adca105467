//! The prelude's source texts, in the order in which they are evaluated.
//!
//! Each is one expression, a function of what it builds on. They are the same for QuickJS and V8: every interpreter with the
//! same natives runs the same prelude.

use serde_json::{Value, json};
use toolgate_wire::Code;
use toolgate_wire::frame::{Question, Stream};
use toolgate_wire::limits::{MAX_ARGUMENTS, MAX_NAME};

use crate::data::{HARD_DEPTH, MAX_KEY_CHARS, MAX_PARSE_DEPTH, MAX_PATH_STEPS};
use crate::random::MAX_RANDOM_BYTES;
use crate::rejections::MAX_UNHANDLED;
use crate::state::{MAX_LOG_BYTES, MAX_TIMERS};

/// The numbers that Rust and JavaScript share. The prelude finds them as `native.constants`.
pub fn constants() -> Value {
    json!({
        "maxArguments": MAX_ARGUMENTS,
        "maxName": MAX_NAME,
        "maxTimers": MAX_TIMERS,
        "maxLogBytes": MAX_LOG_BYTES,
        "maxUnhandled": MAX_UNHANDLED,
        "maxRandomBytes": MAX_RANDOM_BYTES,
        "maxDepth": HARD_DEPTH,
        "maxParseDepth": MAX_PARSE_DEPTH,
        "maxPathSteps": MAX_PATH_STEPS,
        "maxKeyChars": MAX_KEY_CHARS,
        "question": {
            "backend": Question::Backend as u8,
            "interface": Question::Interface as u8,
            "backends": Question::Backends as u8,
            "global": Question::Global as u8,
        },
        "stream": { "stdout": Stream::Stdout as u8, "stderr": Stream::Stderr as u8 },
        "code": {
            "memory": Code::Memory as u8,
            "syntax": Code::Syntax as u8,
            "runtime": Code::Runtime as u8,
            "outputTooLarge": Code::OutputTooLarge as u8,
            "invalidData": Code::InvalidData as u8,
            "unavailable": Code::Unavailable as u8,
        },
    })
}

/// Takes the natives; gives what the others build on.
pub const CORE: &str = include_str!("prelude/core.js");
/// `console`.
pub const CONSOLE: &str = include_str!("prelude/console.js");
/// Timers and host calls.
pub const EVENTS: &str = include_str!("prelude/events.js");
/// Backends, host functions, introspection.
pub const TOOLS: &str = include_str!("prelude/tools.js");
/// The small part of the web platform.
pub const WEB: &str = include_str!("prelude/web.js");
/// Installs the globals of one run and describes what it threw.
pub const MAIN: &str = include_str!("prelude/main.js");
/// An object of functions that serialising needs, captured before any guest code.
pub const REALM: &str = include_str!("data/realm.js");
/// Takes a function that tells kinds of object apart; gives `structuredClone`.
pub const CLONE: &str = include_str!("data/clone.js");
/// A typical program without effects, to warm an interpreter up.
pub const WARM_UP: &str = include_str!("prelude/warm_up.js");
