//! The rules of `data`, each tried in a fresh context.

mod clone;
mod differential;
mod lazy;
mod records;
mod serialise;

use std::cell::Cell;

use rquickjs::{CatchResultExt as _, Context, Ctx, Runtime, Value};

use super::{Caps, DepthPolicy, SerialiseError, UnwritablePolicy, install, install_structured_clone, to_json};

/// A random program is over long before, on any machine: the interpreter asks once in ten thousand steps.
const MOST_POLLS: u32 = 5_000;

thread_local! {
    /// How often the interpreter has asked whether it should go on, since the program began.
    static POLLS: Cell<u32> = const { Cell::new(0) };
}

/// A runtime that interrupts code that never ends.
fn bounded_runtime() -> Runtime {
    let runtime = Runtime::new().expect("runtime");
    runtime.set_memory_limit(256 << 20);
    runtime.set_max_stack_size(256 << 10);
    POLLS.set(0);
    runtime.set_interrupt_handler(Some(Box::new(|| {
        POLLS.set(POLLS.get() + 1);
        POLLS.get() > MOST_POLLS
    })));
    runtime
}

/// Runs `test` in a prepared context.
pub(crate) fn with_realm<R>(test: impl for<'js> FnOnce(Ctx<'js>) -> R) -> R {
    let runtime = bounded_runtime();
    let context = Context::full(&runtime).expect("context");
    context.with(|ctx| {
        install(&ctx).expect("install");
        install_structured_clone(&ctx).expect("install structuredClone");
        test(ctx)
    })
}

/// Evaluates guest code; what it throws fails the test.
pub(crate) fn eval<'js>(ctx: &Ctx<'js>, code: &str) -> Value<'js> {
    ctx.eval::<Value<'js>, _>(code).catch(ctx).unwrap_or_else(|error| panic!("{code}: {error}"))
}

/// Caps that ordinary values don't reach.
pub(crate) fn roomy() -> Caps<'static> {
    Caps {
        max_bytes: 1 << 20,
        max_depth: None,
        depth_policy: DepthPolicy::Error,
        unwritable_policy: UnwritablePolicy::Error,
        root: "result",
        should_stop: &|| false,
    }
}

/// The JSON of what `code` gives, or its refusal in words.
pub(crate) fn written(code: &str, caps: &Caps<'_>) -> String {
    with_realm(|ctx| match to_json(&ctx, eval(&ctx, code), caps) {
        Ok(json) => json,
        Err(SerialiseError::Thrown) => format!("threw {}", thrown(&ctx)),
        Err(error) => error.to_string(),
    })
}

/// The pending exception in words.
pub(crate) fn thrown(ctx: &Ctx<'_>) -> String {
    let value = ctx.catch();
    match value.as_exception() {
        Some(error) => error.message().unwrap_or_default(),
        None => value.type_name().to_owned(),
    }
}
