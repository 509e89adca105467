//! `JSON.stringify`, `structuredClone`, `Object.entries` and the others against what they replaced, over random data that
//! random programs have changed.

use proptest::prelude::*;
use rquickjs::{Array, CatchResultExt as _, Function, Object};

use super::super::Text;
use super::super::clone::without_native_copy;
use super::super::exotic::Mutability;
use super::super::parse::lazy;
use super::lazy::{Program, document, outcome, program, runner};
use super::*;

struct Both<'js> {
    /// Gives the differences between both sets of functions for one value.
    compare: Function<'js>,
    /// The `JSON.parse` that was replaced.
    parse: Function<'js>,
}

/// Runs `test` in a prepared context.
fn with_both<R>(test: impl for<'js> FnOnce(Ctx<'js>, Both<'js>) -> R) -> R {
    let runtime = bounded_runtime();
    let context = Context::full(&runtime).expect("context");
    context.with(|ctx| {
        let pick = "({ stringify: JSON.stringify, parse: JSON.parse, keys: Object.keys, values: Object.values,
            entries: Object.entries, compare: String.prototype.localeCompare })";
        let originals: Object<'_> = ctx.eval(pick).expect("originals");
        install(&ctx).expect("install");
        install_structured_clone(&ctx).expect("install structuredClone");
        originals.set("clone", without_native_copy(&ctx).expect("clone")).expect("set");
        let replaced: Object<'_> = ctx.eval(pick).expect("replaced");
        replaced.set("clone", eval(&ctx, "structuredClone")).expect("set");
        let make: Function<'_> = ctx.eval(include_str!("differential.js")).catch(&ctx).expect("differential.js");
        let parse = originals.get("parse").expect("JSON.parse");
        let compare = make.call((replaced, originals)).catch(&ctx).expect("compare");
        test(ctx, Both { compare, parse })
    })
}

/// What a `JSON.parse` makes of a text, or throws.
fn read<'js>(parse: &Function<'js>, text: &str) -> String {
    match parse.call::<_, Value<'js>>((text,)) {
        Ok(value) => to_json(parse.ctx(), value, &roomy()).expect("json"),
        Err(_) => thrown(parse.ctx()),
    }
}

fn as_records<'js>(ctx: &Ctx<'js>, text: &str, mutability: Mutability) -> Value<'js> {
    lazy(ctx, Text::copy(ctx, text).expect("memory"), mutability).expect("JSON")
}

fn differences<'js>(compare: &Function<'js>, value: Value<'js>, at: usize) -> String {
    compare.call((value, at)).catch(compare.ctx()).unwrap_or_else(|error| panic!("{error}"))
}

/// The differences for the data itself before and after the program, and for everything that the program came across.
fn all_differences<'js>(
    compare: &Function<'js>,
    runner: &Function<'js>,
    data: Value<'js>,
    program: &Program,
    at: usize,
) -> String {
    let mut found = differences(compare, data.clone(), at);
    let Some(seen) = outcome(runner, data, program) else { return found };
    let pool: Array<'js> = seen.get("pool").expect("pool");
    for (index, value) in pool.iter::<Value<'js>>().enumerate() {
        found.push_str(&differences(compare, value.expect("value"), at + index));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn replaced_functions_do_as_before(
        batch in prop::collection::vec((document(), program(), any::<u16>(), any::<bool>()), 20)
    ) {
        with_both(|ctx, both| {
            let runner = runner(&ctx, false);
            for (text, program, at, frozen) in batch {
                let mutability = if frozen { Mutability::Frozen } else { Mutability::Mutable };
                let data = as_records(&ctx, &text, mutability);
                let found = all_differences(&both.compare, &runner, data, &program, usize::from(at));
                prop_assert_eq!(found, "", "{} {:?}", text, program);
            }
            Ok(())
        })?;
    }

    #[test]
    fn also_when_the_prototypes_have_changed(text in document(), program in program(), at in any::<u16>()) {
        with_both(|ctx, both| {
            let data = as_records(&ctx, &text, Mutability::Mutable);
            let found = all_differences(&both.compare, &runner(&ctx, true), data, &program, usize::from(at));
            prop_assert_eq!(found, "", "{} {:?}", text, program);
            Ok(())
        })?;
    }

    #[test]
    fn text_is_parsed_as_before(
        batch in prop::collection::vec((document(), any::<prop::sample::Index>(), 0_u8..128), 20)
    ) {
        with_both(|ctx, both| {
            let now: Function<'_> = ctx.eval("JSON.parse").expect("JSON.parse");
            for (text, at, byte) in batch {
                let padded = format!("[{text},\"{}\"]", "x".repeat(256));
                let mut broken = padded.clone().into_bytes();
                let place = at.index(broken.len());
                broken[place] = byte;
                for text in [Some(padded), String::from_utf8(broken).ok()].into_iter().flatten() {
                    prop_assert_eq!(read(&now, &text), read(&both.parse, &text), "{}", text);
                }
            }
            Ok(())
        })?;
    }
}

/// Functions of some records; what each gives is compared.
const VALUES: &[&str] = &[
    "(d) => d",
    "(d) => d[3]",
    "(d) => d[3].more",
    "(d) => d.slice(5, 7)",
    "(d) => d.concat(d)",
    "(d) => [d[0].tags, d[0].more, d]",
    "(d) => ({ more: d[1].more, of: d[1], all: d })",
    "(d) => [d[0].tags, d[0]]",
    "(d) => { d[1].name = undefined; delete d[2].id; return d }",
    "(d) => Object.freeze(d)",
    "(d) => { Object.prototype.toJSON = function () { return 'o' }; return d }",
    "(d) => { Array.prototype.toJSON = function (key) { return 'a' + key }; return d[0] }",
    "(d) => { Object.defineProperty(Object.prototype, 'toJSON', { get() { return () => 'g' } }); return d }",
    "(d) => { Object.setPrototypeOf(Array.prototype, { toJSON() { return 'x' } }); return d }",
    "(d) => { Object.setPrototypeOf(Array.prototype, new Proxy({}, {})); return d }",
    "(d) => { Object.setPrototypeOf(d[0], { toJSON() { return 'p' } }); return d }",
    "(d) => { Object.setPrototypeOf(d, { toJSON() { return 'p' } }); return d }",
    "(d) => { Object.setPrototypeOf(d[0], null); return d }",
    "(d) => { d[0].more.toJSON = () => 'own'; return d }",
    "(d) => { Object.defineProperty(d[0], 'toJSON', { value: () => 'hidden', enumerable: false }); return d }",
    "() => Object.defineProperty([1], 'toJSON', { value: () => 'hidden' })",
    "(d) => ({ toJSON: { not: 'a function' }, d })",
    "(d) => [, d[0], ,]",
    "(d) => { Array.prototype[1] = 'hole'; return [1, , d] }",
    "(d) => [d, Symbol('s')]",
    "(d) => [d, () => 1, undefined]",
    "(d) => [d, 1n]",
    "(d) => { BigInt.prototype.toJSON = () => 'big'; return [d, 1n] }",
    "(d) => { d[0].self = d; return d }",
    "() => { const a = []; a.push(a, a); return a }",
    "(d) => [JSON.rawJSON('1e1000'), d]",
    "(d) => [new Date(0), new Map([[1, d]]), new Set([d]), /x/g, new Uint8Array(3), Object(1), Object('s'), Object(true), Object(1n)]",
    "(d) => { let v = d; for (let i = 0; i < 200; i++) v = i % 2 ? [v] : { v }; return v }",
    "(d) => { let v = d; for (let i = 0; i < 31; i++) v = [v]; return v }",
    "(d) => Object.assign(Object.create(null), { d })",
    "(d) => new (class P { x = d; get y() { return 1 } })",
    "(d) => Object.assign([1, d], { extra: 1 })",
    "(d) => Object.defineProperty(Object.assign([1, d], { extra: 1 }), 0, { enumerable: false })",
    "(d) => Object.defineProperty(d, 2, { enumerable: false })",
    "(d) => { const x = { d }; return [x, x, { x }] }",
    "(d) => new Proxy(d, {})",
    "(d) => [new Proxy([d], { get: (t, k) => t[k] })]",
    "() => ({ '\\ud800': '\\udc00', 2: 1, 1: 2, b: -0, a: 1e21, c: 5e-324, d: 0.1, e: 1e300, f: NaN, ['__proto__']: 5 })",
    "() => ({ 'é': 'é\\u2028\\u0000\\u007f', '€': '𝄞', '\\n': [[], {}, [[]], [{}], { a: {} }] })",
    "(d) => ({ get a() { return d } })",
    "(d) => Object.defineProperty({ d }, 'hidden', { value: 1 })",
    "(d) => ({ d, [Symbol('s')]: 1 })",
    "() => 'a string'",
    "() => undefined",
    "() => new Array(5)",
    "() => Object.fromEntries(Array.from({ length: 3000 }, (_, i) => ['k' + i, i]))",
    "(d) => ({ ['x'.repeat(1000)]: d, ['\"'.repeat(300)]: 1 })",
];

#[test]
fn every_kind_of_value_is_written_and_copied_as_before() {
    let rows: Vec<String> = (0..12)
        .map(|n| format!(r#"{{"id":{n},"name":"row \u00e9 {n}","x":1.0,"n":-0,"big":1e400,"tags":["x",null],"more":{{"n":{n}, "1":2}}}}"#))
        .collect();
    let text = format!("[{}]", rows.join(","));
    let check = |code: &str, mutability: Mutability, at: usize| {
        let found = with_both(|ctx, both| {
            let make: Function<'_> = ctx.eval(code).catch(&ctx).expect("a function");
            // What a program may not do with frozen records is no case for them.
            match make.call((as_records(&ctx, &text, mutability),)) {
                Ok(value) => differences(&both.compare, value, at),
                Err(_) => String::new(),
            }
        });
        assert_eq!(found, "", "{code} {mutability:?} {at}");
    };
    for code in VALUES {
        check(code, Mutability::Mutable, 0);
        check(code, Mutability::Frozen, 0);
    }
    // Every indentation and replacer for the data itself.
    (1..160).step_by(4).for_each(|at| check(VALUES[0], Mutability::Mutable, at));
}
