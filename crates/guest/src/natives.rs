//! The functions that the prelude is given: its only way to anything outside the interpreter.

use std::rc::Rc;

use rquickjs::function::{Func, Opt};
use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray, Value};
use toolgate_wire::CallId;
use toolgate_wire::frame::{Question, Stream, Target};
use toolgate_wire::limits::MAX_ARGUMENTS;

use crate::data::{self, Caps, DepthPolicy, SerialiseError};
use crate::globals::Resolvers;
use crate::memory;
use crate::state::{Refused, State};
use crate::web;

/// The object of native functions.
pub(crate) fn object<'js>(ctx: &Ctx<'js>, state: &Rc<State>, resolvers: &Resolvers) -> Result<Object<'js>> {
    let natives = Object::new(ctx.clone())?;
    clock_and_chance(&natives, state)?;
    host(&natives, state)?;
    values(&natives, state)?;
    web_platform(&natives)?;
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

fn clock_and_chance<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
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
            TypedArray::<u8>::new_copy(ctx, run.random.borrow_mut().bytes(count.min(65_536)))
        }),
    )
}

fn host<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let run = state.clone();
    natives.set(
        "call",
        Func::from(move |ctx: Ctx<'js>, backend: Option<String>, name: String, args: String| {
            let target = match backend {
                Some(backend) => Target::Tool { backend, tool: name },
                None => Target::Function(name),
            };
            run.call(target, args).map(|id| id.0).map_err(|refused| throw(&ctx, &refused))
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
        Func::from(move |ctx: Ctx<'js>, question: u8, name: String| {
            let question = match question {
                0 => Question::Backend,
                1 => Question::Interface,
                2 => Question::Backends,
                _ => Question::Global,
            };
            let answer = run.ask(question, name).map_err(|refused| throw(&ctx, &refused))?;
            Ok::<_, rquickjs::Error>(answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }),
    )?;
    let run = state.clone();
    natives.set(
        "log",
        Func::from(move |stream: u8, text: String| {
            run.log(if stream == 0 { Stream::Stdout } else { Stream::Stderr }, &text);
        }),
    )
}

fn throw(ctx: &Ctx<'_>, refused: &Refused) -> rquickjs::Error {
    Exception::throw_range(ctx, &refused.to_string())
}

fn values<'js>(natives: &Object<'js>, state: &Rc<State>) -> Result<()> {
    natives.set("parse", Func::from(|ctx: Ctx<'js>, text: rquickjs::String<'js>| ctx.json_parse(text.to_string()?)))?;
    let run = state.clone();
    natives.set(
        "stringify",
        Func::from(move |ctx: Ctx<'js>, value: Value<'js>, what: Opt<String>| {
            let caps = Caps {
                max_bytes: MAX_ARGUMENTS,
                max_depth: None,
                depth_policy: DepthPolicy::Error,
                root: what.0.as_deref().unwrap_or("value"),
                should_stop: &|| run.check().is_some(),
            };
            data::to_json(&ctx, value, &caps).map_err(|fault| match fault {
                SerialiseError::Thrown => rquickjs::Error::Exception,
                fault => Exception::throw_type(&ctx, &fault.to_string()),
            })
        }),
    )?;
    natives.set("isPromise", Func::from(|value: Value<'js>| value.is_promise()))
}

fn web_platform<'js>(natives: &Object<'js>) -> Result<()> {
    natives.set("parseUrl", Func::from(|input: String, base: Option<String>| web::parse(&input, base.as_deref())))?;
    natives.set("setUrl", Func::from(|href: String, part: String, value: String| web::set(&href, &part, &value)))?;
    natives.set("parseQuery", Func::from(|query: String| web::parse_query(&query)))?;
    natives.set("writeQuery", Func::from(|pairs: String| web::write_query(&pairs).unwrap_or_default()))?;
    natives.set(
        "encodeUtf8",
        Func::from(|ctx: Ctx<'js>, text: String| TypedArray::<u8>::new_copy(ctx, text.as_bytes())),
    )?;
    natives.set("decodeUtf8", Func::from(decode_utf8))
}

/// The text, or nothing when it must be valid and is not.
fn decode_utf8(bytes: TypedArray<'_, u8>, fatal: bool) -> Option<String> {
    let bytes = memory::copy_of(&bytes);
    if fatal { String::from_utf8(bytes).ok() } else { Some(String::from_utf8_lossy(&bytes).into_owned()) }
}
