//! `structuredClone` copies what the specification says.

use super::*;

#[track_caller]
fn check(code: &str, expected: &str) {
    assert_eq!(written(code, &roomy()), expected, "{code}");
}

#[test]
fn plain_data_is_copied_deeply() {
    check(
        "const a = {b: [1, , {c: 2}], d: undefined}; const c = structuredClone(a); a.b[2].c = 3;
        [c, 1 in c.b, 'd' in c, c.b.length]",
        r#"[{"b":[1,null,{"c":2}]},false,true,3]"#,
    );
}

#[test]
fn cycles_and_shared_objects_keep_their_identity() {
    check("const a = {}; a.self = a; const c = structuredClone(a); [c.self === c, c !== a]", "[true,true]");
    check(
        "const s = {}; const c = structuredClone([s, s, new Map([[s, s]])]); [c[0] === c[1], c[2].get(c[0]) === c[0]]",
        "[true,true]",
    );
}

#[test]
fn built_in_kinds_survive() {
    check("const c = structuredClone(new Date(5)); [c instanceof Date, c.getTime()]", "[true,5]");
    check("const c = structuredClone(/a(b)/gi); [c instanceof RegExp, c.source, c.flags]", r#"[true,"a(b)","gi"]"#);
    check("const c = structuredClone(new Set([1, {a: 1}])); [c instanceof Set, c]", r#"[true,[1,{"a":1}]]"#);
    check("const c = structuredClone(Object(3n)); [typeof c, String(c)]", r#"["object","3"]"#);
    check(
        "const b = new Uint8Array([1, 2, 3, 4]); const c = structuredClone([b, b.subarray(1, 3)]);
        [c, c[0].buffer === c[1].buffer, c[0].buffer !== b.buffer]",
        "[[[1,2,3,4],[2,3]],true,true]",
    );
    check(
        "const c = structuredClone(Object.assign(new RangeError('m', {cause: {a: 1}}), {extra: 1}));
        [c instanceof RangeError, c.message, c.cause, c.extra]",
        r#"[true,"m",{"a":1},null]"#,
    );
}

#[test]
fn an_instance_becomes_a_plain_object_and_getters_become_values() {
    check(
        "class P { x = 1; get y() { return 2 } } const c = structuredClone(new P()); [c, c.constructor === Object]",
        r#"[{"x":1},true]"#,
    );
    check(
        "const c = structuredClone({get a() { return 5 }}); Object.getOwnPropertyDescriptor(c, 'a')",
        r#"{"value":5,"writable":true,"enumerable":true,"configurable":true}"#,
    );
}

#[test]
fn what_cannot_be_cloned_is_a_data_clone_error() {
    let name = |value: &str| format!("try {{ structuredClone({value}) }} catch (e) {{ [e.name, e.message] }}");
    check(&name("() => 1"), r#"["DataCloneError","The function (anonymous) could not be cloned."]"#);
    check(&name("[Symbol()]"), r#"["DataCloneError","A symbol could not be cloned."]"#);
    check(&name("{p: Promise.resolve()}"), r#"["DataCloneError","An object of this kind could not be cloned."]"#);
    check(&name("new Proxy({}, {})"), r#"["DataCloneError","An object of this kind could not be cloned."]"#);
    check(&name("new WeakMap()"), r#"["DataCloneError","An object of this kind could not be cloned."]"#);
}

#[test]
fn redefined_globals_do_not_disturb_it() {
    check(
        "const m = new Map([[1, 2]]); Map.prototype.get = Map.prototype.set = Object.keys = () => { throw 1 }; Object.prototype.get = 1;
        structuredClone({a: [m]})",
        r#"{"a":[[[1,2]]]}"#,
    );
}
