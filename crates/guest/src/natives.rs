//! The functions that the prelude is given: its only way to anything outside the interpreter.

use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::function::{Func, Opt};
use rquickjs::{Ctx, Function, Object, Result, TypedArray, Value};
use toolgate_wire::CallId;
use toolgate_wire::codec::tag;
use toolgate_wire::frame::{Question, Stream, Target};
use toolgate_wire::limits::MAX_RANDOM_BYTES;

use crate::calls::{self, throw};
use crate::data::{self, Listing};
use crate::globals::Resolvers;
use crate::memory;
use crate::prelude;
use crate::state::{Refused, State};
use crate::web;

/// The object of native functions.
pub(crate) fn object<'js>(ctx: &Ctx<'js>, state: &Rc<State>, resolvers: &Resolvers) -> Result<Object<'js>> {
    let natives = Object::new(ctx.clone())?;
    natives.set("constants", ctx.json_parse(prelude::constants().to_string())?)?;
    clock_and_random(&natives, state)?;
    host(&natives, state)?;
    backends(&natives, state)?;
    values(&natives, state)?;
    web_platform(&natives, state)?;
    locale(&natives)?;
    let resolvers = resolvers.clone();
    natives.set(
        "resolveGlobals",
        Func::from(move |ctx: Ctx<'js>, resolve: Function<'js>| -> Result<()> {
            let globals = ctx.globals();
            let between = resolvers.object(&ctx, resolve)?;
            between.set_prototype(globals.get_prototype().as_ref())?;
            globals.set_prototype(Some(&between))
        }),
    )?;
    Ok(natives)
}

/// Loaded when a program first needs them, outside of what every worker starts with.
fn locale<'js>(natives: &Object<'js>) -> Result<()> {
    natives.set(
        "locale",
        Func::from(|ctx: Ctx<'js>| -> Result<Function<'js>> {
            let mut options = EvalOptions::default();
            options.filename = Some("toolgate:locale".to_owned());
            ctx.eval_with_options(prelude::LOCALE, options)
        }),
    )?;
    natives.set("localeData", Func::from(|| prelude::LOCALE_DATA))?;
    natives.set("localeCompare", Func::from(|ctx: Ctx<'js>, slow: Function<'js>| data::locale_compare(&ctx, &slow)))
}

fn clock_and_random<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let ctx = natives.ctx();
    let run = state.clone();
    natives.set("now", Function::new(ctx.clone(), move || run.now.get())?.with_name("now")?)?;
    let run = state.clone();
    let random = Function::new(ctx.clone(), move || run.random.borrow_mut().fraction())?;
    natives.set("random", random.with_name("random")?)?;
    let run = state.clone();
    natives.set(
        "randomBytes",
        Func::from(move |ctx: Ctx<'js>, count: usize| {
            TypedArray::<u8>::new_copy(ctx, run.random.borrow_mut().bytes(count.min(MAX_RANDOM_BYTES)))
        }),
    )
}

fn host<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let run = state.clone();
    natives.set(
        "call",
        // Sends a call whose answer nothing waits for.
        Func::from(move |ctx: Ctx<'js>, backend: Option<String>, name: String, args: String| {
            run.call(target_of(backend, name), args).map(|id| id.0).map_err(|refused| throw(&ctx, &refused))
        }),
    )?;
    let run = state.clone();
    natives.set(
        "callHost",
        Func::from(move |ctx: Ctx<'js>, backend: Option<String>, name: String, args: Value<'js>, site: Value<'js>| {
            calls::begin(&ctx, &run, target_of(backend, name), args, site)
        }),
    )?;
    let run = state.clone();
    natives.set(
        "timer",
        Func::from(move |ctx: Ctx<'js>, delay: f64| {
            run.timer(delay).map(|id| id.0).map_err(|refused| throw(&ctx, &refused))
        }),
    )?;
    let run = state.clone();
    natives.set("cancel", Func::from(move |id: u32| run.cancel_timer(CallId(id))))?;
    let run = state.clone();
    natives.set(
        "ask",
        Func::from(move |ctx: Ctx<'js>, number: u8, name: String, tool: Opt<String>| {
            let question = question_of(number, name, tool.0);
            let answer = run.ask(question).map_err(|refused| throw(&ctx, &refused))?;
            answer.map(|text| ctx.json_parse(text)).transpose()
        }),
    )?;
    let run = state.clone();
    natives.set(
        "log",
        Func::from(move |stream: u8, text: String| {
            run.log(if stream == tag::STDOUT { Stream::Stdout } else { Stream::Stderr }, &text);
        }),
    )
}

fn target_of(backend: Option<String>, name: String) -> Target {
    match backend {
        Some(backend) => Target::Tool { backend, tool: name },
        None => Target::Function(name),
    }
}

/// `name` is the backend where a question also names a tool.
fn question_of(number: u8, name: String, tool: Option<String>) -> Question {
    match number {
        tag::ASK_BACKEND => Question::Backend(name),
        tag::ASK_INTERFACE_OF => Question::InterfaceOf(name),
        tag::ASK_BACKENDS => Question::Backends,
        tag::ASK_INTERFACE => Question::Interface { backend: name, tool: tool.unwrap_or_default() },
        _ => Question::Global(name),
    }
}

/// A backend is passed by its name; its listing stays here until a program reads from it. No name has a lone surrogate: such
/// a spelling means nothing.
fn backends<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let run = state.clone();
    natives.set(
        "backend",
        Func::from(move |ctx: Ctx<'js>, question: u8, spelling: rquickjs::String<'js>| match spelling.to_string() {
            Ok(spelling) => run.backend(question_of(question, spelling, None)).map_err(|refused| throw(&ctx, &refused)),
            Err(_) => Ok(None),
        }),
    )?;
    let run = state.clone();
    natives.set(
        "toolNamed",
        Func::from(move |backend: String, key: rquickjs::String<'js>| {
            let key = key.to_string().ok()?;
            run.listed(&backend, |listing| listing.tool(&key)).flatten()
        }),
    )?;
    let run = state.clone();
    natives.set(
        "tools",
        // The identifiers and the names; null for the names if both are the same. Parsed rather than built: a program may have put
        // setters on `Array.prototype`.
        Func::from(move |ctx: Ctx<'js>, backend: String| {
            let names = run.listed(&backend, Listing::names).unwrap_or_default();
            ctx.json_parse(serde_json::to_string(&names).unwrap_or_default())
        }),
    )
}

fn values<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
    natives.set("parse", Func::from(|ctx: Ctx<'js>, text: rquickjs::String<'js>| ctx.json_parse(text.to_string()?)))?;
    let run = state.clone();
    natives.set(
        "stringify",
        Func::from(move |ctx: Ctx<'js>, value: Value<'js>, what: Opt<String>| {
            calls::arguments(&ctx, &run, value, what.0.as_deref().unwrap_or("value"))
        }),
    )?;
    natives.set("isPromise", Func::from(|value: Value<'js>| value.is_promise()))
}

/// Bytes that these functions need at most while they run, as multiples of their text's length.
mod room {
    pub(super) const URL: u64 = 12;
    pub(super) const QUERY: u64 = 48;
    pub(super) const PAIRS: u64 = 16;
    pub(super) const BYTES: u64 = 4;
    pub(super) const TEXT: u64 = 2;
}

/// Throws unless the run has room for `times` the length: the interpreter's allocator does not count what Rust allocates.
fn need_room(ctx: &Ctx<'_>, run: &State, length: usize, times: u64) -> Result<()> {
    let fits = run.meter.has_room(times.saturating_mul(length as u64));
    if fits { Ok(()) } else { Err(throw(ctx, &Refused::Memory)) }
}

fn web_platform<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let run = state.clone();
    natives.set(
        "parseUrl",
        Func::from(move |ctx: Ctx<'js>, input: String, base: Option<String>| {
            need_room(&ctx, &run, input.len() + base.as_ref().map_or(0, String::len), room::URL)?;
            Ok::<_, rquickjs::Error>(web::parse(&input, base.as_deref()))
        }),
    )?;
    let run = state.clone();
    natives.set(
        "setUrl",
        Func::from(move |ctx: Ctx<'js>, href: String, part: String, value: String| {
            need_room(&ctx, &run, href.len() + value.len(), room::URL)?;
            Ok::<_, rquickjs::Error>(web::set(&href, &part, &value))
        }),
    )?;
    let run = state.clone();
    natives.set(
        "parseQuery",
        Func::from(move |ctx: Ctx<'js>, query: String| {
            need_room(&ctx, &run, query.len(), room::QUERY)?;
            Ok::<_, rquickjs::Error>(web::parse_query(&query))
        }),
    )?;
    let run = state.clone();
    natives.set(
        "writeQuery",
        Func::from(move |ctx: Ctx<'js>, pairs: String| {
            need_room(&ctx, &run, pairs.len(), room::PAIRS)?;
            Ok::<_, rquickjs::Error>(web::write_query(&pairs).unwrap_or_default())
        }),
    )?;
    let run = state.clone();
    natives.set(
        "encodeUtf8",
        Func::from(move |ctx: Ctx<'js>, text: String| {
            need_room(&ctx, &run, text.len(), room::TEXT)?;
            TypedArray::<u8>::new_copy(ctx, text.as_bytes())
        }),
    )?;
    let run = state.clone();
    natives.set(
        "decodeUtf8",
        Func::from(move |ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, fatal: bool| {
            need_room(&ctx, &run, memory::length_of(&bytes), room::BYTES)?;
            Ok::<_, rquickjs::Error>(decode_utf8(&bytes, fatal))
        }),
    )
}

/// The text; `None` when it must be valid UTF-8 and is not.
fn decode_utf8(bytes: &TypedArray<'_, u8>, fatal: bool) -> Option<String> {
    let bytes = memory::copy_of(bytes);
    if fatal { String::from_utf8(bytes).ok() } else { Some(String::from_utf8_lossy(&bytes).into_owned()) }
}

#[cfg(test)]
mod tests;
