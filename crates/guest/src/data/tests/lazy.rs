//! Lazy records against `JSON.parse`: random documents, random programs, the same notes.

use proptest::prelude::*;
use rquickjs::{Array, CatchResultExt as _, Function, Object};

use super::super::exotic::Mutability;
use super::super::parse::{eager, lazy};
use super::super::{ParseError, Text};
use super::*;

fn as_records<'js>(ctx: &Ctx<'js>, text: &str) -> std::result::Result<Value<'js>, ParseError> {
    lazy(ctx, Text::copy(ctx, text).expect("memory"), Mutability::Mutable)
}

fn as_frozen_records<'js>(ctx: &Ctx<'js>, text: &str) -> Value<'js> {
    lazy(ctx, Text::copy(ctx, text).expect("memory"), Mutability::Frozen).expect("lazy")
}

/// The same by `JSON.parse` and `Object.freeze`.
fn frozen_in_full<'js>(ctx: &Ctx<'js>, text: &str) -> Value<'js> {
    let freeze: Function<'js> = ctx
        .eval(
            "(function freeze(v) {
                if (v === null || typeof v !== 'object') return v;
                for (const key of Reflect.ownKeys(v)) freeze(v[key]);
                return Object.freeze(v);
            })",
        )
        .expect("freeze");
    freeze.call((eager(ctx, text).expect("eager"),)).catch(ctx).expect("frozen")
}

/// White space where JSON allows it; mostly none, as in real text.
fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just(""), 1 => Just(" "), 1 => Just("\n\t ")]
}

fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        6 => prop::sample::select(vec![r#""a""#, r#""b""#, r#""id""#, r#""name""#, r#""list""#]),
        2 => prop::sample::select(vec![
            r#""__proto__""#, r#""0""#, r#""1""#, r#""7""#, r#""01""#, r#""4294967294""#, r#""4294967295""#, r#""-1""#,
            r#""é""#, r#""\u00e9""#, r#""\u0061""#, r#""\u0031""#, r#""\ud800""#, r#""toJSON""#, r#""constructor""#,
            r#""""#, r#""a\nb""#, r#""\u0000""#, r#""a longer key than sixteen bytes""#, r#""𝄞""#, r#""Ã©""#,
        ]),
    ]
}

fn scalar() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "0",
        "1",
        "-1",
        "42",
        "1e3",
        "1.0",
        "-0",
        "-0.0",
        "0.1",
        "12345678901234567890",
        "1E-7",
        "-1.5e+3",
        "1e400",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "999999999999999",
        "1234567890123456",
        "5e-324",
        "123456789.125",
        "true",
        "false",
        "null",
        r#""""#,
        r#""plain""#,
        r#""a much longer string without any escape""#,
        r#""\"\\\/\b\f\n\r\t""#,
        r#""\u00e9é""#,
        r#""\ud834\udd1e𝄞""#,
        r#""\ud800""#,
        r#""x\udc00y""#,
        r#""\ud800\u0041""#,
        r#""\u0000\u001f""#,
        r#""\u2028 ""#,
        r#""toJSON""#,
        r#""[1,{}]""#,
        r#""{\"a\":1}""#,
    ])
}

fn object(members: Vec<(&'static str, String, &'static str)>) -> String {
    let members: Vec<String> =
        members.iter().map(|(key, value, space)| format!("{key}:{space}{value}{space}")).collect();
    format!("{{{}}}", members.join(","))
}

/// Several objects of one shape, as tools return them.
fn table() -> impl Strategy<Value = String> {
    let row = prop::collection::vec(scalar(), 3);
    (prop::collection::vec(key(), 3), prop::collection::vec(row, 0..6), space()).prop_map(|(keys, rows, space)| {
        let rows: Vec<String> = rows
            .iter()
            .map(|row| object(keys.iter().zip(row).map(|(key, value)| (*key, (*value).to_owned(), space)).collect()))
            .collect();
        format!("[{}]", rows.join(","))
    })
}

pub(super) fn document() -> impl Strategy<Value = String> {
    let leaf = scalar().prop_map(str::to_owned);
    let value = leaf.prop_recursive(4, 40, 6, |inner| {
        let member = (key(), inner.clone(), space());
        prop_oneof![
            3 => prop::collection::vec(member, 0..8).prop_map(object),
            2 => (prop::collection::vec(inner, 0..6), space()).prop_map(|(items, space)| format!("[{space}{}]", items.join(","))),
            2 => table(),
        ]
    });
    let member = (key(), value.clone(), space());
    prop_oneof![
        2 => prop::collection::vec(member, 0..8).prop_map(object),
        2 => prop::collection::vec(value, 0..6).prop_map(|items| format!(" [{}] ", items.join(","))),
        1 => table(),
    ]
}

pub(super) type Step = [u8; 5];
pub(super) type Program = Vec<Step>;

pub(super) fn program() -> impl Strategy<Value = Program> {
    prop::collection::vec(any::<Step>(), 0..12)
}

/// What may be reached: the data alone, or the prototypes behind it too, which then no other program may see.
pub(super) fn runner<'js>(ctx: &Ctx<'js>, everything: bool) -> Function<'js> {
    let make: Function<'js> = ctx.eval(include_str!("programs.js")).catch(ctx).expect("programs.js");
    make.call((everything,)).catch(ctx).expect("runner")
}

type Seen = (String, Vec<std::result::Result<String, SerialiseError>>);

/// What the program noted and came across. None if it goes round and round: a prototype chain with a Proxy in it can be
/// endless, in any engine.
pub(super) fn outcome<'js>(runner: &Function<'js>, data: Value<'js>, program: &Program) -> Option<Object<'js>> {
    let ctx = runner.ctx();
    let steps = Array::new(ctx.clone()).expect("array");
    for (at, step) in program.iter().enumerate() {
        steps.set(at, step.to_vec()).expect("step");
    }
    POLLS.set(0);
    let seen: rquickjs::Result<Object<'js>> = runner.call((data, steps));
    if POLLS.replace(0) > MOST_POLLS {
        ctx.catch();
        return None;
    }
    Some(seen.catch(ctx).unwrap_or_else(|error| panic!("{error}")))
}

/// The program's notes, and the JSON of every value that it came across.
fn run<'js>(runner: &Function<'js>, data: Value<'js>, program: &Program) -> Option<Seen> {
    let ctx = runner.ctx();
    let seen = outcome(runner, data, program)?;
    let pool: Array<'js> = seen.get("pool").expect("pool");
    let json = |value: rquickjs::Result<Value<'js>>| {
        let json = to_json(ctx, value.expect("value"), &roomy());
        ctx.catch();
        json
    };
    Some((seen.get("notes").expect("notes"), pool.iter::<Value<'js>>().map(json).collect()))
}

#[test]
fn a_program_that_never_ends_is_left() {
    // A record that inherits from a Proxy of itself is asked for its class.
    with_realm(|ctx| {
        let endless: Function<'_> = ctx
            .eval("(data) => { data.__proto__ = new Proxy(data, {}); return { notes: data instanceof Object, pool: [] }; }")
            .expect("function");
        assert!(run(&endless, as_records(&ctx, "{}").expect("lazy"), &Vec::new()).is_none());
    });
}

proptest! {
    // Each case is a batch, as making a realm takes longer than running a program in it.
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn no_program_can_tell_a_record_from_an_object(batch in prop::collection::vec((document(), program()), 30)) {
        with_realm(|ctx| {
            let runner = runner(&ctx, false);
            for (text, program) in batch {
                let plain = run(&runner, eager(&ctx, &text).expect("eager"), &program);
                let record = run(&runner, as_records(&ctx, &text).expect("lazy"), &program);
                prop_assert_eq!(plain, record, "{} {:?}", text, program);
            }
            Ok(())
        })?;
    }

    #[test]
    fn nor_can_a_program_that_changes_the_prototypes(text in document(), program in program()) {
        let plain = with_realm(|ctx| run(&runner(&ctx, true), eager(&ctx, &text).expect("eager"), &program));
        let record = with_realm(|ctx| run(&runner(&ctx, true), as_records(&ctx, &text).expect("lazy"), &program));
        prop_assert_eq!(plain, record);
    }

    #[test]
    fn no_program_can_tell_a_frozen_record_from_a_frozen_object(
        batch in prop::collection::vec((document(), program()), 30)
    ) {
        with_realm(|ctx| {
            let runner = runner(&ctx, false);
            for (text, program) in batch {
                let plain = run(&runner, frozen_in_full(&ctx, &text), &program);
                let record = run(&runner, as_frozen_records(&ctx, &text), &program);
                prop_assert_eq!(plain, record, "{} {:?}", text, program);
            }
            Ok(())
        })?;
    }

    #[test]
    fn nor_can_a_program_that_changes_the_prototypes_behind_frozen_records(text in document(), program in program()) {
        let plain = with_realm(|ctx| run(&runner(&ctx, true), frozen_in_full(&ctx, &text), &program));
        let record = with_realm(|ctx| run(&runner(&ctx, true), as_frozen_records(&ctx, &text), &program));
        prop_assert_eq!(plain, record);
    }

    #[test]
    fn an_untouched_document_is_written_as_if_it_had_been_parsed(
        batch in prop::collection::vec((document(), 1_u32..6), 20)
    ) {
        with_realm(|ctx| {
            for (text, depth) in batch {
                let marked = Caps { max_depth: Some(depth), depth_policy: DepthPolicy::Marker, ..roomy() };
                for caps in [roomy(), marked] {
                    let plain = to_json(&ctx, eager(&ctx, &text).expect("eager"), &caps);
                    let record = to_json(&ctx, as_records(&ctx, &text).expect("lazy"), &caps);
                    prop_assert_eq!(plain, record, "{}", text);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn broken_text_is_refused_and_never_half_read(
        batch in prop::collection::vec((document(), any::<prop::sample::Index>(), 0_u8..128), 20)
    ) {
        with_realm(|ctx| {
            let parse: Function<'_> = ctx.eval("JSON.parse").expect("JSON.parse");
            for (text, at, byte) in batch {
                let mut bytes = text.into_bytes();
                let at = at.index(bytes.len());
                bytes[at] = byte;
                let Ok(text) = String::from_utf8(bytes) else { continue };
                let parsed = parse.call::<_, Value<'_>>((text.as_str(),)).is_ok();
                ctx.catch();
                let container = text.trim_start().starts_with(['{', '[']);
                prop_assert_eq!(as_records(&ctx, &text).is_ok(), parsed && container, "{}", text);
                prop_assert_eq!(eager(&ctx, &text).is_ok(), parsed, "{}", text);
            }
            Ok(())
        })?;
    }
}
