//! Values are written as `JSON.stringify` writes them, within bounds.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(code: &str, expected: &str) {
    assert_eq!(written(code, &roomy()), expected, "{code}");
}

#[track_caller]
fn check_capped(code: &str, caps: Caps<'_>, expected: &str) {
    assert_eq!(written(code, &caps), expected, "{code}");
}

#[test]
fn primitives_are_written_as_json_stringify_does() {
    check("null", "null");
    check("true", "true");
    check("'a'", r#""a""#);
    check("0", "0");
    check("-7", "-7");
    check("2147483648", "2147483648");
    check("9007199254740991", "9007199254740991");
    check("-9007199254740993", "-9007199254740992");
    check("0.1", "0.1");
    check("-0", "0");
    check("NaN", "null");
    check("[Infinity, -Infinity]", "[null,null]");
}

#[test]
fn undefined_is_null_at_the_top_and_in_arrays_and_absent_in_objects() {
    check("undefined", "null");
    check("[undefined, , 1]", "[null,null,1]");
    check("({a: undefined, b: 1})", r#"{"b":1}"#);
    check("new Map([['a', undefined], ['b', 1]])", r#"{"b":1}"#);
}

#[test]
fn numbers_print_as_javascript_prints_them() {
    let numbers = "[1e21, 1e-7, 1.5e300, 5e-324, 1.7976931348623157e308, 123456789012345680000, 0.000001, 1e-6,
        1.234e-5, 4.35, 0.1+0.2, 1/3, 100, 1e100, -1.5e-10, 2**53, 2**64, 1e20, 123456.789, 12345678901234567890]";
    with_realm(|ctx| {
        let expected: String = eval(&ctx, &format!("JSON.stringify({numbers})")).get().expect("text");
        assert_eq!(to_json(&ctx, eval(&ctx, numbers), &roomy()).expect("json"), expected);
    });
}

#[test]
fn strings_are_escaped_as_json_stringify_does() {
    let strings = r#"["\u0000\u0001\b\t\n\v\f\r\u001f", "\"\\/", "\u007f\u0080\u2028", "é€𝄞", "\ud7ff\ue000",
        "\ud800", "a\udc00b", "\udc00\ud800", "\ud800\ud800\udc00", "", "x".repeat(1000) + "\n" + "y".repeat(1000)]"#;
    with_realm(|ctx| {
        let expected: String = eval(&ctx, &format!("JSON.stringify({strings})")).get().expect("text");
        assert_eq!(to_json(&ctx, eval(&ctx, strings), &roomy()).expect("json"), expected);
    });
    check(r#"({"\ud800": 1, "a\nb": 2})"#, r#"{"\ud800":1,"a\nb":2}"#);
}

#[test]
fn objects_keep_the_order_of_javascript() {
    check("({b: 1, 2: 2, a: {}, 1: [], [Symbol('s')]: 1})", r#"{"1":[],"2":2,"b":1,"a":{}}"#);
    check("Object.create({inherited: 1}, {own: {value: 1, enumerable: true}, hidden: {value: 2}})", r#"{"own":1}"#);
    check("JSON.parse('{\"__proto__\":1}')", r#"{"__proto__":1}"#);
}

#[test]
fn boxed_primitives_are_unwrapped() {
    check("[Object(1), Object('a'), Object(false)]", r#"[1,"a",false]"#);
    check("class N extends Number { valueOf() { return 7 } }; new N(1)", "7");
    check("[Object(1n)]", "result[0] is a BigInt; use String(x) or Number(x)");
}

#[test]
fn dates_are_iso_text_and_invalid_dates_are_null() {
    check("new Date(0)", r#""1970-01-01T00:00:00.000Z""#);
    check("[new Date(NaN)]", "[null]");
    check(
        "delete Date.prototype.toJSON; Date.prototype.toISOString = () => 'no'; new Date(0)",
        r#""1970-01-01T00:00:00.000Z""#,
    );
    check("delete Date.prototype.toJSON; new Date(NaN)", "null");
}

#[test]
fn to_json_is_honoured_with_its_key() {
    check("({a: {toJSON(key) { return 'for ' + key }}})", r#"{"a":"for a"}"#);
    check("[{toJSON(key) { return typeof key + key }}]", r#"["string0"]"#);
    check("({toJSON(key) { return [key] }})", r#"[""]"#);
    check("({a: {toJSON() {}}, b: [{toJSON() {}}]})", r#"{"b":[null]}"#);
    check("({toJSON: 1})", r#"{"toJSON":1}"#);
    check("BigInt.prototype.toJSON = function () { return 'n' + this }; [1n]", r#"["n1"]"#);
}

#[test]
fn collections_and_bytes_have_a_form() {
    check("new Map([['a', 1], ['b', new Map()]])", r#"{"a":1,"b":{}}"#);
    check("new Map([[1, 'x'], ['a', {b: 2}]])", r#"[[1,"x"],["a",{"b":2}]]"#);
    check("new Set([1, 'a', [2]])", r#"[1,"a",[2]]"#);
    check("new Uint8Array([1, 255])", "[1,255]");
    check("new Float64Array([0.5, NaN, -0])", "[0.5,null,0]");
    check("({a: new BigInt64Array(2)})", "result.a[0] is a BigInt; use String(x) or Number(x)");
    check("new Uint8Array([1, 2, 3]).buffer", "[1,2,3]");
    check("new DataView(new Uint8Array([1, 2, 3, 4]).buffer, 1, 2)", "[2,3]");
    check("JSON.rawJSON('12345678901234567890')", "12345678901234567890");
    check("/x/", "{}");
}

#[test]
fn redefined_globals_do_not_disturb_collections() {
    let sabotage = "Map.prototype.entries = Map.prototype[Symbol.iterator] = Set.prototype.values = () => { throw 1 };
        Object.defineProperty(Array.prototype, 0, {set() { throw 2 }}); Object.prototype.get = 3; JSON.stringify = () => 'no';";
    check(&format!("{sabotage} [new Map([['a', 1]]), new Set([2])]"), r#"[{"a":1},[2]]"#);
}

#[test]
fn an_error_is_its_name_and_message() {
    check("new TypeError('bad')", r#"{"name":"TypeError","message":"bad"}"#);
    check("[Object.assign(new Error('x'), {code: 1})]", r#"[{"name":"Error","message":"x"}]"#);
    check("const e = new Error(); e.name = undefined; e", r#"{"name":"Error","message":""}"#);
}

#[test]
fn what_json_cannot_say_is_refused_with_its_path() {
    check("({items: [1, 2, 3, {id: 5n}]})", "result.items[3].id is a BigInt; use String(x) or Number(x)");
    check("Symbol('s')", "result is a Symbol; use its description or a string");
    check("({'a b': [() => 1]})", r#"result["a b"][0] is a function; call it or leave it out"#);
    check("[class A {}]", "result[0] is a function; call it or leave it out");
    check("[new Proxy(function () {}, {})]", "result[0] is a function; call it or leave it out");
    check("({p: Promise.resolve(1)})", "result.p is a Promise; await it first");
    check("new Map([['k', 1n]])", "result.k is a BigInt; use String(x) or Number(x)");
    check("new Map([[{}, 1n]])", "result[0][1] is a BigInt; use String(x) or Number(x)");
}

#[test]
fn a_cycle_is_refused_and_a_shared_object_is_not() {
    check("const a = {b: [{}]}; a.b[0].c = a.b; a", "result.b[0].c is a cycle back to result.b; return a tree");
    check("const m = new Map(); m.set('m', m); m", "result.m is a cycle back to result; return a tree");
    check("const s = {x: 1}; [s, s]", r#"[{"x":1},{"x":1}]"#);
}

#[test]
fn what_guest_code_throws_is_its_own_exception() {
    check("({get a() { throw new Error('mine') }})", "threw mine");
    check("new Proxy({}, {ownKeys() { throw new Error('trap') }})", "threw trap");
    check("({toJSON() { throw new Error('json') }})", "threw json");
    check("const {proxy, revoke} = Proxy.revocable([], {}); revoke(); proxy", "threw revoked proxy");
    check("({get a() { throw null }})", "threw null");
}

#[test]
fn proxies_are_read_through_their_traps() {
    check("new Proxy([1, 2], {})", "[1,2]");
    check(
        "new Proxy(new Proxy([1], {}), {get: (t, k) => k === 'length' ? 2 : k === 'toJSON' ? undefined : k})",
        r#"["0","1"]"#,
    );
    check("new Proxy({a: 1}, {get: (t, k) => k === 'toJSON' ? undefined : 5})", r#"{"a":5}"#);
}

#[test]
fn a_getter_may_change_the_object_that_is_being_written() {
    check("const o = {get a() { delete o.b; o.c = 1; return 0 }, b: 1}; o", r#"{"a":0}"#);
    check("const l = [{get x() { l.length = 0; return 1 }}, 2]; l", r#"[{"x":1},null]"#);
}

#[test]
fn depth_beyond_the_cap_is_a_marker_or_an_error() {
    let caps = Caps { max_depth: Some(2), depth_policy: DepthPolicy::Marker, ..roomy() };
    let nested = "({a: [1, {b: 1}, [2], new Map()], c: 1})";
    check_capped(
        nested,
        caps,
        r#"{"a":[1,"[depth limit reached: object]","[depth limit reached: array]","[depth limit reached: Map]"],"c":1}"#,
    );
    let caps = Caps { max_depth: Some(2), ..roomy() };
    check_capped(nested, caps, "result.a[1] is nested deeper than 2 levels");
}

#[test]
fn what_json_can_not_hold_is_a_marker_where_the_caps_say_so() {
    let marked = || Caps { unwritable_policy: UnwritablePolicy::Marker, ..roomy() };
    check_capped(
        "[() => 1, Symbol(), 2n ** 70n, Promise.resolve()]",
        marked(),
        r#"["[Function]","[Symbol]","[BigInt: 1180591620717411303424]","[Promise]"]"#,
    );
    check_capped("const o = {a: {}}; o.a['b\"'] = o.a; o", marked(), r#"{"a":{"b\"":"[Circular: result.a]"}}"#);
    let caps = Caps { max_bytes: 50, ..marked() };
    check_capped("[10n ** 100n]", caps, "the value is larger than 50 bytes of JSON");
    let caps = Caps { max_bytes: 9, ..marked() };
    check_capped("[() => 1]", caps, "the value is larger than 9 bytes of JSON");
}

#[test]
fn endless_depth_is_an_error_and_not_a_crash() {
    let deep = "let d = []; for (let i = 0; i < 100000; i++) d = [d]; d";
    let path = format!("result{0}…{0}", "[0]".repeat(12));
    check(deep, &format!("{path} is nested deeper than 1000 levels"));
    check(
        "let l = 0; for (let i = 0; i < 1000; i++) l = [l]; l",
        &format!("{}0{}", "[".repeat(1000), "]".repeat(1000)),
    );
    let marked = Caps { max_depth: Some(u32::MAX), depth_policy: DepthPolicy::Marker, ..roomy() };
    check_capped(deep, marked, &format!("{path} is nested deeper than 1000 levels"));
}

#[test]
fn size_is_capped_exactly() {
    let caps = Caps { max_bytes: 7, ..roomy() };
    check_capped("'12345'", caps, r#""12345""#);
    check_capped("'123456'", caps, "the value is larger than 7 bytes of JSON");
    check_capped("[1, 2, 3]", caps, "[1,2,3]");
    check_capped("[1, 2, 3, 4]", caps, "the value is larger than 7 bytes of JSON");
}

#[test]
fn values_that_never_end_stop_at_the_size_cap() {
    let large = "the value is larger than 1048576 bytes of JSON";
    check("const a = []; a.length = 4e9; a", large);
    check("new Proxy([], {get: (t, k) => k === 'length' ? Infinity : undefined})", large);
    check("let d = [0]; for (let i = 0; i < 60; i++) d = [d, d]; d", large);
    check("'x'.repeat(2000000)", large);
}

#[test]
fn the_caller_can_stop_the_walk() {
    let caps = Caps { should_stop: &|| true, ..roomy() };
    check_capped("new Array(1000).fill(0)", caps, "stopped before the value was written");
}

#[test]
fn a_small_native_stack_is_enough() {
    let run = || written("let d = 1; for (let i = 0; i < 999; i++) d = {d}; d", &roomy()).len();
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(run).expect("thread");
    assert_eq!(thread.join().expect("no overflow"), 999 * 6 + 1);
}

/// JSON text with the numbers, keys and strings in which writers differ.
fn awkward_json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<f64>()
            .prop_filter("JSON has no NaN", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        any::<i64>().prop_map(|number| number.to_string()),
        (-400..400_i32, 0..1000_u32).prop_map(|(exponent, digits)| format!("{digits}.5e{exponent}")),
        Just("-0".to_owned()),
    ];
    let string = prop_oneof![any::<String>(), Just("\u{7f}\u{2028}\u{d7ff}\u{e000}\u{10ffff}\u{0}".to_owned())]
        .prop_map(|text| serde_json::Value::from(text).to_string());
    let leaf = prop_oneof![number, string, Just("null".to_owned()), Just("true".to_owned())];
    let key = prop_oneof![
        Just("__proto__".to_owned()),
        any::<u32>().prop_map(|index| index.to_string()),
        "[0-9]{1,11}",
        "[a-z]{0,3}"
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|members| {
                let members =
                    members.iter().map(|(key, value)| format!("{}:{value}", serde_json::Value::from(key.as_str())));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The interpreter's own writer, this serialiser and the writer of paths without an interpreter.
    #[test]
    fn the_three_writers_give_the_same_bytes(json in awkward_json()) {
        // serde_json rejects numbers beyond the range of a double, which JavaScript reads as infinite.
        let Ok(value) = serde_json::from_str::<serde_json::Value>(&json) else { return Ok(()) };
        let (interpreter, serialiser) = with_realm(|ctx| {
            let text = serde_json::Value::from(json.as_str());
            let own: String = ctx.eval(format!("JSON.stringify(JSON.parse({text}))")).expect("text");
            let value = crate::data::from_json(&ctx, &json).expect("JSON");
            (own, to_json(&ctx, value, &roomy()).expect("text"))
        });
        prop_assert_eq!(&interpreter, &serialiser);
        prop_assert_eq!(&interpreter, &toolgate_json::stringify(&value));
    }
}
