//! JSON in the guest: a text that is read lazily, and what the engine's own `JSON.parse` makes of it, are written alike.
//!
//! Build it with AddressSanitizer (`fuzz/run` does): the lazy objects are unsafe code over the C interface of the engine.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rquickjs::{Context, Ctx, Function, Runtime, Value};
use toolgate_guest::data::{
    Caps, DepthPolicy, UnwritablePolicy, from_json, install, install_structured_clone, to_json,
};

/// Reads all of a value by every kind of access, changes it, and gives it back.
const TOUCH: &str = "(value => {
    const seen = [];
    const touch = (it, depth) => {
        if (it === null || typeof it !== 'object' || depth > 20) return;
        seen.push(Object.keys(it).length, JSON.stringify(it)?.length, structuredClone(it) === it);
        for (const [key, inner] of Object.entries(it)) { touch(inner, depth + 1); if (depth % 2) delete it[key]; }
        if (Array.isArray(it)) { it.push(1); it.sort(); it.splice(0, 1); } else { it.added = it; delete it.added; it['0'] = 1; }
    };
    touch(value, 0);
    return [seen, value];
})";

fn written<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<String, String> {
    let caps = Caps {
        max_bytes: 16 << 20,
        max_depth: None,
        depth_policy: DepthPolicy::Error,
        unwritable_policy: UnwritablePolicy::Error,
        root: "value",
        should_stop: &|| false,
    };
    to_json(ctx, value, &caps).map_err(|error| {
        ctx.catch();
        error.to_string()
    })
}

/// What is written of a value and of everything that was seen in it.
fn touched<'js>(touch: &Function<'js>, value: &Value<'js>) -> Result<String, String> {
    match touch.call::<_, Value<'js>>((value.clone(),)) {
        Ok(all) => written(touch.ctx(), all),
        Err(_) => Err(format!("{:?}", touch.ctx().catch().as_exception().and_then(|error| error.message()))),
    }
}

fuzz_target!(|text: &str| {
    let runtime = Runtime::new().expect("a runtime");
    runtime.set_memory_limit(256 << 20);
    runtime.set_max_stack_size(128 << 10);
    let context = Context::full(&runtime).expect("a context");
    context.with(|ctx| {
        let parse: Function<'_> = ctx.eval("JSON.parse").expect("JSON.parse");
        install(&ctx).expect("install");
        install_structured_clone(&ctx).expect("install");
        let touch: Function<'_> = ctx.eval(TOUCH).expect("a function");
        let lazy = from_json(&ctx, text);
        let eager = parse.call::<_, Value<'_>>((text,));
        let (Ok(lazy), Ok(eager)) = (&lazy, &eager) else {
            ctx.catch();
            // The lazy reader refuses deeper nesting than the engine does, and nothing else.
            assert!(lazy.is_err() || eager.is_err());
            assert!(eager.is_err() || text.matches(['[', '{']).count() > 100, "only the lazy reader refuses it");
            assert!(lazy.is_err() || text.matches(['[', '{']).count() > 100, "only the engine refuses it");
            return;
        };
        assert_eq!(written(&ctx, lazy.clone()), written(&ctx, eager.clone()));
        assert_eq!(touched(&touch, lazy), touched(&touch, eager));
    });
});
