//! What holds for records beyond looking like objects: memory, depth, the functions that had to be wrapped.

use rquickjs::Function;

use super::super::exotic::Mutability;
use super::super::parse::{eager, lazy};
use super::super::{ParseError, Text, from_json, from_text};
use super::*;

fn as_records<'js>(ctx: &Ctx<'js>, text: &str) -> Value<'js> {
    lazy(ctx, Text::copy(ctx, text).expect("memory"), Mutability::Mutable).expect("JSON")
}

/// What `code`, a function of the data, gives as JSON.
#[track_caller]
fn check(text: &str, code: &str, expected: &str) {
    let json = with_realm(|ctx| {
        let program: Function<'_> = ctx.eval(code).catch(&ctx).expect("program");
        let result: Value<'_> = program.call((as_records(&ctx, text),)).catch(&ctx).expect("result");
        to_json(&ctx, result, &roomy()).expect("json")
    });
    assert_eq!(json, expected, "{code}");
}

/// `count` records of about 70 bytes.
fn table(count: usize) -> String {
    let rows: Vec<String> =
        (0..count).map(|n| format!(r#"{{"id":{n},"name":"row {n}","tags":["x"],"more":{{"n":{n}}}}}"#)).collect();
    format!("[{}]", rows.join(","))
}

#[test]
fn a_table_can_be_filtered_and_mapped() {
    check(&table(100), "(d) => d.filter((r) => r.id > 97).map((r) => r.name)", r#"["row 98","row 99"]"#);
    check(&table(3), "(d) => d", &table(3));
}

#[test]
fn every_field_is_found_however_far_it_is() {
    let row = |long: usize| {
        let fields: Vec<String> = (0..12).map(|n| format!(r#""f{n}":"{n} {}""#, "x".repeat(long))).collect();
        format!(r#"{{{},"list":[ "a" ,-1.5],"nested":[["]"],{{}}],"last":7}}"#, fields.join(","))
    };
    for long in [0, 9, 7_000, 70_000] {
        let rows = format!("[{}]", vec![row(long); 3].join(", "));
        let code = "(d) => [0, 7, 8, 11, 3].map((n) => d.map((r) => Number(r[`f${n}`].split(' ')[0]) + r.last))";
        check(&rows, code, "[[7,7,7],[14,14,14],[15,15,15],[18,18,18],[10,10,10]]");
        check(&rows, "(d) => d.map((r) => [r.list, r.nested])[2]", r#"[["a",-1.5],[["]"],{}]]"#);
    }
}

#[test]
fn nested_values_are_the_same_at_every_read() {
    check(&table(2), "(d) => [d[0].tags === d[0].tags, d[0].more === d[0].more, d[0] === d[0]]", "[true,true,true]");
}

#[test]
fn a_change_deep_inside_shows_in_the_result() {
    check(
        &table(1),
        "(d) => { d[0].more.n = 5; d[0].tags.push('y'); return d }",
        r#"[{"id":0,"name":"row 0","tags":["x","y"],"more":{"n":5}}]"#,
    );
    check(
        &table(1),
        "(d) => { const more = d[0].more; more.n = 7; d[0].z = more; return d[0] }",
        r#"{"id":0,"name":"row 0","tags":["x"],"more":{"n":7},"z":{"n":7}}"#,
    );
}

#[test]
fn a_to_json_on_the_prototypes_is_honoured_for_untouched_text() {
    check(
        &table(1),
        "(d) => { Array.prototype.toJSON = function () { return 'list' }; return d[0] }",
        r#"{"id":0,"name":"row 0","tags":"list","more":{"n":0}}"#,
    );
    check(&table(1), "(d) => { Object.prototype.toJSON = function () { return 'object' }; return d }", r#""object""#);
    check(
        &table(1),
        "(d) => { Object.setPrototypeOf(d[0], {toJSON() { return this.name }}); return d }",
        r#"["row 0"]"#,
    );
}

#[test]
fn many_reads_of_one_record_stay_right() {
    check(
        &table(1),
        "([r]) => { let s = 0; for (let i = 0; i < 10; i++) s += r.id + r.name.length + r.tags.length; return s }",
        "60",
    );
}

#[test]
fn a_record_with_thousands_of_keys_is_read_in_reasonable_time() {
    let members: Vec<String> = (0..20_000).map(|n| format!(r#""key{n}":{{"n":{n}}}"#)).collect();
    let text = format!("{{{}}}", members.join(","));
    check(
        &text,
        "(d) => { let s = 0; for (const k in d) s += d[k].n; return [s, Object.keys(d).length] }",
        "[199990000,20000]",
    );
}

#[test]
fn records_of_many_shapes_are_all_read() {
    let rows: Vec<String> = (0..200).map(|n| format!(r#"{{"k{}":1,"v":{n}}}"#, n % 100)).collect();
    check(&format!("[{}]", rows.join(",")), "(d) => d.reduce((s, r) => s + r.v, 0)", "19900");
}

#[test]
fn wrapped_functions_look_as_before() {
    check(
        "{}",
        "() => [Object.freeze, Object.seal, Object.preventExtensions, Reflect.preventExtensions, JSON.stringify, JSON.parse,
        Object.keys, Object.values, Object.entries, String.prototype.localeCompare]
        .map((f) => [f.name, f.length, /\\[native code\\]/.test(f), 'prototype' in f].join())",
        r#"["freeze,1,true,false","seal,1,true,false","preventExtensions,1,true,false","preventExtensions,1,true,false","stringify,3,true,false","parse,2,true,false","keys,1,true,false","values,1,true,false","entries,1,true,false","localeCompare,1,true,false"]"#,
    );
    check(
        "{}",
        "() => [Object.freeze(1), Object.isFrozen(Object.freeze({a: 1})), Object.keys(Object).length]",
        "[1,true,0]",
    );
    check("{}", "() => { try { Reflect.preventExtensions(1) } catch (e) { return e.name } }", r#""TypeError""#);
    check(
        "{}",
        "() => { const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); try { Object.freeze(proxy) } catch (e) { return e.name } }",
        r#""TypeError""#,
    );
}

#[test]
fn depth_is_refused_cleanly_in_every_form() {
    let nested = |open: &str, close: &str, levels: usize| format!("{}{}", open.repeat(levels), close.repeat(levels));
    with_realm(|ctx| {
        let too_deep = Err(ParseError::TooDeep { limit: 1_000 });
        let objects = |levels: usize| format!("{}0{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        for text in
            [nested("[", "]", 10_000), objects(10_000), format!("[{}]", objects(1_000)), nested("[", "]", 1_001)]
        {
            assert_eq!(from_json(&ctx, &text).map(|_| ()), too_deep);
        }
        for text in [nested("[", "]", 1_000), objects(1_000)] {
            assert_eq!(to_json(&ctx, from_json(&ctx, &text).expect("fits"), &roomy()).expect("json"), text);
        }
    });
}

#[test]
fn invalid_text_names_the_byte() {
    with_realm(|ctx| {
        let long = format!("[{}]", vec!["1"; 300].join(","));
        for (text, at) in [("[1,]", 3), ("{\"a\" 1}", 5), ("", 0), ("[1] 2", 4), ("\"\\x\"", 1), ("01", 1)] {
            assert_eq!(from_json(&ctx, text).map(|_| ()), Err(ParseError::Syntax { at }), "{text}");
        }
        assert_eq!(from_json(&ctx, &format!("{long}]")).map(|_| ()), Err(ParseError::Syntax { at: long.len() }));
        let mut raw = Text::new(&ctx, 3).expect("memory");
        raw.bytes_mut().copy_from_slice(b"\"\xff\"");
        assert_eq!(from_text(&ctx, raw).map(|_| ()), Err(ParseError::Syntax { at: 1 }));
    });
}

/// A realm whose memory can be looked at and limited from outside.
struct Sandbox {
    runtime: Runtime,
    context: Context,
}

impl Sandbox {
    fn new() -> Self {
        let runtime = Runtime::new().expect("runtime");
        let context = Context::full(&runtime).expect("context");
        context.with(|ctx| install(&ctx).expect("install"));
        Self { runtime, context }
    }

    fn used(&self) -> usize {
        self.runtime.run_gc();
        usize::try_from(self.runtime.memory_usage().malloc_size).expect("positive")
    }

    fn parses(&self, text: &str) -> bool {
        self.context.with(|ctx| {
            let parsed = from_json(&ctx, text).is_ok();
            ctx.catch();
            parsed
        })
    }

    /// Runs `code`, a function of the data, which is kept as `data` if it was not there before.
    fn call(&self, text: &str, code: &str) -> bool {
        self.context.with(|ctx| {
            let globals = ctx.globals();
            if !globals.contains_key("data").expect("globals") {
                globals.set("data", as_records(&ctx, text)).expect("memory");
            }
            let done = ctx.eval::<(), _>(format!("({code})(data)")).is_ok();
            ctx.catch();
            done
        })
    }
}

#[test]
fn text_and_records_count_against_the_memory_limit() {
    let sandbox = Sandbox::new();
    sandbox.runtime.set_memory_limit(4 << 20);
    assert!(!sandbox.parses(&table(100_000)));
    // Here the text fits, and its records don't.
    assert!(!sandbox.parses(&format!("[{}]", vec![r#"{"a":1}"#; 100_000].join(","))));
    // Nothing of the failures stays behind.
    assert!(sandbox.parses(&table(10_000)));
}

#[test]
fn memory_is_given_back_with_the_last_record() {
    let sandbox = Sandbox::new();
    assert!(sandbox.parses(&table(1_000)));
    let before = sandbox.used();
    for _ in 0..20 {
        assert!(sandbox.parses(&table(1_000)));
    }
    assert!(sandbox.used() < before + (16 << 10));
}

#[test]
fn running_out_of_memory_while_a_record_settles_is_an_exception() {
    let sandbox = Sandbox::new();
    let text = format!(r#"{{"big":{},"a":1}}"#, table(10_000));
    let write = "(d) => { d.a = 2; if (d.a !== 2 || d.big.length !== 10000) throw d.a }";
    assert!(sandbox.call(&text, "() => {}"));
    sandbox.runtime.set_memory_limit(sandbox.used() + (64 << 10));
    assert!(!sandbox.call(&text, write));
    sandbox.runtime.set_memory_limit(256 << 20);
    assert!(sandbox.call(&text, write));
}

#[test]
fn running_out_of_memory_while_text_is_written_parsed_or_cloned_is_an_exception() {
    for code in ["JSON.stringify(d)", "JSON.stringify(d, null, 2)", "JSON.parse(globalThis.text)", "structuredClone(d)"]
    {
        let sandbox = Sandbox::new();
        sandbox.context.with(|ctx| install_structured_clone(&ctx).expect("install structuredClone"));
        let text = table(10_000);
        let act = format!("(d) => {{ if (!({code}).length) throw 0 }}");
        assert!(sandbox.call(&text, "(d) => { globalThis.text = JSON.stringify(d) }"));
        let used = sandbox.used();
        for room in [1 << 10, 64 << 10, 400 << 10] {
            sandbox.runtime.set_memory_limit(used + room);
            assert!(!sandbox.call(&text, &act), "{code} {room}");
            sandbox.runtime.set_memory_limit(256 << 20);
            assert!(sandbox.call(&text, &act), "{code}");
            // Nothing of the failure stays behind.
            assert!(sandbox.used() < used + (16 << 10), "{code} {room}");
        }
    }
}

#[test]
fn a_program_that_parses_much_and_keeps_little_has_its_memory_back() {
    let sandbox = Sandbox::new();
    let text = table(10_000);
    assert!(sandbox.call(&text, "(d) => { globalThis.text = JSON.stringify(d); globalThis.kept = [] }"));
    let before = sandbox.used();
    assert!(sandbox.call(&text, "() => { for (let i = 0; i < 60; i++) kept.push(JSON.parse(text)[i]) }"));
    assert!(sandbox.used() < before + (12 << 20), "{}", sandbox.used() - before);
    assert!(sandbox.call(&text, "() => { kept.length = 0 }"));
    assert!(sandbox.used() < before + (16 << 10));
}

#[test]
fn the_clone_of_a_small_part_does_not_keep_the_whole_text() {
    let sandbox = Sandbox::new();
    sandbox.context.with(|ctx| install_structured_clone(&ctx).expect("install structuredClone"));
    let before = sandbox.used();
    assert!(sandbox.call(
        &table(10_000),
        "(d) => { globalThis.kept = structuredClone([d[5], { a: d[6] }]); delete globalThis.data }"
    ));
    assert!(sandbox.used() < before + (64 << 10), "{}", sandbox.used() - before);
    assert!(sandbox.call("[]", "() => { if (kept[0].id !== 5 || kept[1].a.more.n !== 6) throw 0 }"));
}

#[test]
fn garbage_in_cycles_through_records_is_collected() {
    let sandbox = Sandbox::new();
    let tie = "(d) => { d[0].tags.push(d); d[0].more.up = d[0]; delete globalThis.data }";
    assert!(sandbox.call(&table(2_000), tie));
    let before = sandbox.used();
    for _ in 0..20 {
        assert!(sandbox.call(&table(2_000), tie));
    }
    assert!(sandbox.used() < before + (16 << 10));
}

#[test]
fn a_small_native_stack_is_enough_for_records() {
    let run = || {
        with_realm(|ctx| {
            let deep = format!("{}1{}", r#"[{"a":"#.repeat(450), "}]".repeat(450));
            let value = as_records(&ctx, &deep);
            assert_eq!(to_json(&ctx, value, &roomy()).expect("json"), deep);
            assert!(eager(&ctx, &"[".repeat(10_000)).is_err());
        });
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(run).expect("thread").join().expect("no overflow");
}

/// Steps of programs that copy and list records, each a function of one record, of the data and of the record's place in it.
const COPIES: &[&str] = &[
    "(r) => Object.entries(r)",
    "(r) => Object.values(r)",
    "(r) => Object.keys(r)",
    "(r) => ({ ...r })",
    "(r) => ({ ...r, extra: 1, id: 'changed' })",
    "(r) => Object.assign({ z: 1 }, r)",
    "(r) => { const { id, tags, ...rest } = r; return rest }",
    "(r) => { const keys = []; for (const key in r) keys.push(key); return keys }",
    "(r) => Object.fromEntries(Object.entries(r).reverse())",
    "(r) => [r.f9, r.last, r.f2, r.name, r.f9]",
    "(r) => r.last",
    "(r) => Object.entries(r).map(([key, value]) => value === r[key])",
    "(r) => Object.values({ ...r }).map((value, at) => value === Object.values(r)[at])",
    "(r) => { Object.values(r).find((value) => Array.isArray(value)).push('more'); return [r.tags, { ...r }] }",
    "(r) => { Object.entries(r).find(([key]) => key === 'more')[1].n = -1; return [r.more, JSON.stringify(r)] }",
    "(r) => { try { r.name = 'new' } catch (e) { return e.message } return [Object.entries(r), { ...r }] }",
    "(r) => { try { delete r.f3; r.f3 = 'last' } catch (e) { return e.message } return [Object.keys(r), { ...r }] }",
    "(r, d, at) => { try { d[(at + 1) % d.length] = { ...r } } catch (e) { return e.message } return d.length }",
    "(r) => JSON.stringify(structuredClone(r))",
];

/// Records of one shape with nested values in the middle, and some of other shapes between them.
fn rows(count: usize) -> String {
    let row = |n: usize| {
        let fields: Vec<String> = (0..10).map(|field| format!(r#""f{field}":{}"#, (n * 7 + field) % 100)).collect();
        let (first, rest) = fields.split_at(3);
        format!(
            r#"{{"id":{n},"name":"row \u00e9 {n}",{},"tags":["x",{n}],"more":{{"n":{n}}},{},"last":"{}"}}"#,
            first.join(","),
            rest.join(","),
            "é".repeat(n % 5),
        )
    };
    let odd = |n: usize| format!(r#"{{"2":{n},"id":{n},"1":[{n}],"id":"twice","tags":[],"more":{{}}}}"#);
    let all: Vec<String> = (0..count).map(|n| if n % 9 == 4 { odd(n) } else { row(n) }).collect();
    format!("[{}]", all.join(","))
}

/// What `code`, a function of the data, gives as JSON, for records or for parsed objects.
fn given(text: &str, code: &str, mutability: Mutability, as_record: bool) -> String {
    const FREEZE: &str =
        "(function freeze(v) { if (Object(v) === v) { Object.values(v).forEach(freeze); Object.freeze(v) } })";
    with_realm(|ctx| {
        let data = if as_record {
            lazy(&ctx, Text::copy(&ctx, text).expect("memory"), mutability).expect("JSON")
        } else {
            eager(&ctx, text).expect("JSON")
        };
        if !as_record && mutability == Mutability::Frozen {
            let freeze: Function<'_> = ctx.eval(FREEZE).expect("freeze");
            freeze.call::<_, ()>((data.clone(),)).expect("frozen");
        }
        let program: Function<'_> = ctx.eval(code).catch(&ctx).expect("program");
        match program.call::<_, Value<'_>>((data,)) {
            Ok(value) => to_json(&ctx, value, &roomy()).expect("json"),
            Err(_) => thrown(&ctx),
        }
    })
}

#[test]
fn copies_and_lists_of_records_are_those_of_objects() {
    let text = rows(40);
    for (at, one) in COPIES.iter().enumerate() {
        for other in COPIES.iter().cycle().skip(at).take(7).step_by(2) {
            let code = format!(
                "'use strict'; (d) => d.map((r, at) => [({one})(r, d, at), ({other})(r, d, at), ({one})(r, d, at)])"
            );
            for mutability in [Mutability::Mutable, Mutability::Frozen] {
                let as_record = given(&text, &code, mutability, true);
                assert_eq!(as_record, given(&text, &code, mutability, false), "{code} {mutability:?}");
            }
        }
    }
}

#[test]
fn the_shapes_that_are_kept_for_copies_are_bounded() {
    let sandbox = Sandbox::new();
    let copy = "(d) => { for (let i = 0; i < 100; i++) {
        const keys = Array.from({ length: 32 }, (_, at) => `key${i}_${at}`);
        const text = JSON.stringify(Array(12).fill(Object.fromEntries(keys.map((key, at) => [key, at]))));
        for (const r of JSON.parse(text)) if (Object.keys({ ...r }).join() !== keys.join()) throw i;
    } }";
    assert!(sandbox.call("[]", "() => {}"));
    let before = sandbox.used();
    assert!(sandbox.call("[]", copy));
    let kept = sandbox.used() - before;
    assert!(kept < 16 * (48 << 10), "{kept}");
    assert!(sandbox.call("[]", copy));
    assert!(sandbox.used() <= before + kept + (16 << 10), "{}", sandbox.used() - before);
}

#[test]
fn running_out_of_memory_while_records_are_listed_or_copied_is_an_exception() {
    for code in ["Object.entries(r)", "Object.values(r)", "({ ...r })", "Object.assign({}, r)"] {
        let sandbox = Sandbox::new();
        let text = rows(10_000);
        let act = format!("(d) => {{ globalThis.all = d.map((r) => {code}) }}");
        assert!(sandbox.call(&text, "() => {}"));
        let used = sandbox.used();
        for room in [1 << 10, 20 << 10, 400 << 10] {
            sandbox.runtime.set_memory_limit(used + room);
            assert!(!sandbox.call(&text, &act), "{code} {room}");
        }
        sandbox.runtime.set_memory_limit(256 << 20);
        assert!(sandbox.call(&text, &act), "{code}");
        assert!(sandbox.call(&text, "(d) => { if (all.length !== d.length || d[1].name !== 'row é 1') throw 0 }"));
    }
}

#[test]
fn what_is_compared_without_normalising_is_normal_in_every_neighbourhood() {
    check(
        "[]",
        "() => {
            const all = [];
            for (let c = 0; c < 0x480; c++) if (c < 0x300 || c >= 0x400) all.push(String.fromCharCode(c));
            for (const one of all) {
                const pairs = all.map((other) => one + other).join('');
                if (pairs.normalize() !== pairs) return one;
            }
            return 'normal';
        }",
        r#""normal""#,
    );
}
