//! The prelude's source texts, in the order in which they are evaluated.
//!
//! Each is one expression, a function of what it builds on. They are the same for QuickJS and V8: every interpreter with the
//! same natives runs the same prelude.

use serde_json::{Map, Value, json};
use toolgate_wire::codec::{class_number, code_number, tag};
use toolgate_wire::{Code, ErrorClass, Profile, limits};

/// The numbers that Rust and JavaScript share: the prelude's `native.constants`, and those of the V8 worker's program.
pub fn constants() -> Value {
    /// An object whose keys are the names of these constants.
    macro_rules! named {
        ($($module:ident::$name:ident),* $(,)?) => { json!({ $(stringify!($name): $module::$name),* }) };
    }
    let codes: Map<String, Value> =
        Code::ALL.into_iter().map(|code| (code.name().to_owned(), code_number(code).into())).collect();
    let classes: Map<String, Value> =
        ErrorClass::ALL.into_iter().map(|class| (class.name().to_owned(), class_number(class).into())).collect();
    json!({
        "tags": named!(
            tag::START, tag::REPLY, tag::FIRE, tag::ANSWER, tag::WAITED,
            tag::READY, tag::CALL, tag::TIMER, tag::CANCEL, tag::ASK, tag::LOG, tag::DONE,
            tag::TARGET_TOOL, tag::TARGET_FUNCTION,
            tag::ASK_BACKEND, tag::ASK_INTERFACE_OF, tag::ASK_BACKENDS, tag::ASK_GLOBAL, tag::ASK_INTERFACE,
            tag::STDOUT, tag::STDERR, tag::RETURNED,
        ),
        "codes": codes,
        "classes": classes,
        "limits": named!(
            limits::MAX_ARGUMENTS, limits::MAX_NAME, limits::MAX_TIMERS, limits::MAX_LOG_BYTES, limits::MAX_JSON_DEPTH,
            limits::MAX_UNHANDLED_REJECTIONS, limits::MAX_RANDOM_BYTES, limits::MAX_PATH_STEPS, limits::MAX_PATH_KEY,
        ),
        "profiles": Profile::ALL.map(Profile::name),
    })
}

/// Takes the natives; gives what the others build on.
pub const CORE: &str = include_str!("prelude/core.js");
/// Placeholders for the answers of calls that are reviewed before they are sent.
pub const STAGE: &str = include_str!("prelude/stage.js");
/// `console`.
pub const CONSOLE: &str = include_str!("prelude/console.js");
/// Timers and host calls.
pub const EVENTS: &str = include_str!("prelude/events.js");
/// Backends, host functions, introspection.
pub const TOOLS: &str = include_str!("prelude/tools.js");
/// The small part of the web platform.
pub const WEB: &str = include_str!("prelude/web.js");
/// The methods that depend on a locale, and `Intl`.
pub const LOCALE_HOOKS: &str = include_str!("prelude/locale_hooks.js");
/// Numbers, dates and lists in the words of a locale; evaluated when a program first needs it.
pub const LOCALE: &str = include_str!("prelude/locale.js");
/// What common locales and time zones look like, as JSON; see `tests/javascript/locale-data.cjs`.
pub const LOCALE_DATA: &str = include_str!("prelude/locale_data.json");
/// Installs the globals of one run and describes what it threw.
pub const MAIN: &str = include_str!("prelude/main.js");
/// An object of functions that serialising needs, captured before any guest code.
pub const REALM: &str = include_str!("data/realm.js");
/// Takes a function that tells kinds of object apart; gives `structuredClone`.
pub const CLONE: &str = include_str!("data/clone.js");
/// A typical program without effects, to warm an interpreter up.
pub const WARM_UP: &str = include_str!("prelude/warm_up.js");
