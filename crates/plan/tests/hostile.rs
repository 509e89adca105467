//! Text that is made to crash or to stall whoever reads it. A stack overflow would end this test process.

mod support;

use std::time::{Duration, Instant};
use support::Catalog;
use toolgate_plan::{FailureFacts, Form, Position, compile, hint_for, plan, validate_code};
use toolgate_wire::Profile;

const LARGEST: usize = 262_144;
/// Generous: the suite is built without optimisation and shares its machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Repeats `open`, puts `middle` in, closes with as many `close`, about `size` characters in all.
fn nested(open: &str, middle: &str, close: &str, size: usize) -> String {
    let count = (size.saturating_sub(middle.len()) / (open.len() + close.len())).max(1);
    format!("{}{middle}{}", open.repeat(count), close.repeat(count))
}

#[track_caller]
fn survives(open: &str, middle: &str, close: &str) {
    for (size, prefix) in [
        (1_500, ""),
        (1_500, "let x: "),
        (12_000, ""),
        (12_000, "\"use strict\"; /\"/; "),
        (LARGEST, ""),
        (LARGEST, "x = "),
    ] {
        let source = format!("{prefix}{}", nested(open, middle, close, size));
        let started = Instant::now();
        let compiled = compile(&source, Form::Script).is_ok();
        let taken = started.elapsed();
        assert!(taken < TEST_TIMEOUT, "{open}{middle}{close} at {size}: {taken:?} ok={compiled}");
    }
}

#[test]
fn nested_brackets_never_overflow() {
    for (open, middle, close) in [
        ("(", "a", ")"),
        ("[", "", "]"),
        ("{", "", "}"),
        ("({a:", "1", "})"),
        ("{a:", "1", "}"),
        ("a(", "", ")"),
        ("a[", "0", "]"),
        ("new a(", "", ")"),
        ("(function(){", "", "})"),
        ("()=>{", "", "}"),
        ("(a=", "1", ")=>1"),
        ("(a=", "1", ")"),
        ("class A{static{", "", "}}"),
        ("x={m(){x=", "1", "}}"),
        ("`${", "1", "}`"),
        ("try{", "", "}catch{}"),
        ("switch(a){case 1:", "", "}"),
        ("namespace a{", "", "}"),
        ("if(a){", "", "}else{}"),
        ("import(", "1", ")"),
    ] {
        survives(open, middle, close);
        survives(open, middle, "");
    }
}

#[test]
fn long_chains_never_overflow() {
    for (open, middle, close) in [
        ("!", "a", ""),
        ("- ", "a", ""),
        ("typeof ", "a", ""),
        ("await ", "a", ""),
        ("await\n", "a", ""),
        ("new ", "a", ""),
        ("a+", "a", ""),
        ("a+\n", "a", ""),
        ("a\n+", "a", ""),
        ("a&&", "a", ""),
        ("a**", "a", ""),
        ("a.", "a", ""),
        ("a?.", "a", ""),
        ("a=", "a", ""),
        ("a=>", "a", ""),
        ("async a=>", "a", ""),
        ("a?b:", "a", ""),
        ("a?", "a", ":b"),
        ("if(a);else ", ";", ""),
        ("if(a)\n", ";", ""),
        ("for(;;)", ";", ""),
        ("while(1)", ";", ""),
        ("do ", ";", " while(1);"),
        ("a:", ";", ""),
        ("a,", "a", ""),
        ("a;", "a", ""),
        ("a\n", "a", ""),
        ("<a>", "b", ""),
        ("class extends ", "b", "{}"),
        ("yield ", "", ""),
        ("throw ", "", ""),
        ("a in ", "b", ""),
        ("a instanceof ", "b", ""),
        ("...", "b", ""),
        ("@a ", "class A{}", ""),
        ("a>", "b", ""),
        ("let ", "a", ""),
        ("import ", "a", ""),
        ("export ", "a", ""),
        ("function ", "", ""),
    ] {
        survives(open, middle, close);
    }
    for suffix in [
        "()",
        "[0]",
        "!",
        " as a",
        "``",
        ".a",
        "++",
        " satisfies a",
        "[]",
        "<b>",
        ".b",
        "|b",
        "&b",
        " extends b ? c : d",
    ] {
        survives(&format!("a{suffix}"), "", "");
        survives(suffix, "", "");
    }
}

#[test]
fn nested_types_never_overflow_nor_stall() {
    for (open, middle, close) in [
        ("(", "b", ")"),
        ("b<", "b", ">"),
        ("b<", "b", ""),
        ("a<b,", "b", ""),
        ("a<(", "b", ")"),
        ("a<(b=", "1", ")"),
        ("a<{b:", "1", "}"),
        ("{a:", "b", "}"),
        ("()=>", "b", ""),
        ("(a:", "b", ")=>c"),
        ("a extends b?c:", "b", ""),
        ("a extends (infer U extends ", "b", ")?c:d"),
        ("keyof ", "b", ""),
        ("readonly ", "b", ""),
        ("`${", "b", "}`"),
        ("typeof a<", "b", ">"),
        ("new () => ", "b", ""),
    ] {
        survives(open, middle, close);
    }
}

#[test]
fn brackets_hidden_from_a_careless_reader_never_overflow() {
    for (open, middle, close) in [
        ("(\")\",", "a", ")"),
        ("(')',", "a", ")"),
        ("(/*)*/", "a", ")"),
        ("(//)\n", "a", ")"),
        ("(/[)/]/,", "a", ")"),
        ("(/\\)/,", "a", ")"),
        ("(`)`,", "a", ")"),
        ("if(a)/)/,(", "a", ")"),
        ("{}/)/,(", "a", ")"),
        ("a!/)/,(", "a", ")"),
        ("a++/)/,(", "a", ")"),
        ("for await(a of b)/)/,(", "a", ")"),
        ("a.if(b)/)/,(", "a", ")"),
        ("return/)/,(", "a", ")"),
        ("(\\u{29},", "a", ")"),
        ("(\\u)", "a", ")"),
        ("(<!--)\n", "a", ")"),
        ("(\u{2028}/)/,", "a", ")"),
        ("(\u{a0}/)/,", "a", ")"),
        ("(a=>{}\n/)/,", "a", ")"),
        ("(a as b<c>/)/,", "a", ")"),
        ("(1./)/,", "a", ")"),
        ("(a\n/)/,", "a", ")"),
        ("(0,of/)/,", "a", ")"),
    ] {
        survives(open, middle, close);
        survives(open, middle, "");
    }
}

#[test]
fn many_of_anything_cost_no_more_than_their_length() {
    for unit in [
        "exa.nope({});",
        "exa.web_search({});",
        "exaa.x();",
        "y.x();",
        "eval();",
        "import.meta;",
        "enum E{A}",
        "namespace N{export const a=1}",
        "a as b;",
        "'x';\u{2028}",
        "let {exa}=x;{",
        "class A{private x:number;constructor(public y){}}",
        "db.find({}).x;",
        "type A=1;",
        "/**/",
        "`${a}`;",
    ] {
        let source = unit.repeat(LARGEST / unit.len());
        let started = Instant::now();
        let _ = compile(&source, Form::Script);
        let _ = validate_code(&source);
        let _ = plan(&source, &Catalog);
        let position = Some(Position { line: 1, column: 1_000 });
        let _ = hint_for(&FailureFacts { source: &source, class: None, position, profile: Profile::Chain }, &Catalog);
        assert!(started.elapsed() < 2 * TEST_TIMEOUT, "{unit}: {:?}", started.elapsed());
    }
    let started = Instant::now();
    let _ = plan(&format!("{{\"tool\": \"{}\"}}", "db.".repeat(80_000)), &Catalog);
    let _ = plan(&format!("{}b({{}})", "a-b.".repeat(60_000)), &Catalog);
    assert!(started.elapsed() < TEST_TIMEOUT, "{:?}", started.elapsed());
}

#[test]
fn the_guard_survives_too() {
    for unit in ["(", "d=>", "`${", "!", "a.", "a<b,"] {
        let started = Instant::now();
        let code = format!("(d) => {}", unit.repeat(65_536 / unit.len()));
        assert!(validate_code(&code).is_err(), "{unit}");
        assert!(started.elapsed() < TEST_TIMEOUT, "{unit}: {:?}", started.elapsed());
    }
}

#[test]
fn long_honest_programs_are_accepted() {
    let line = "const value_NUMBER: number = Math.max(items[0].price * 2, (other.a + other.b) / 2); // cost\n";
    let mut program: String = (0..2_500).map(|n| line.replace("NUMBER", &n.to_string())).collect();
    program.push_str("return value_0");
    assert!(program.len() > 200_000);
    assert_eq!(compile(&program, Form::Script).err(), None);

    let bare: String =
        (0..3_000).map(|n| format!("items[{n}].price = other.a + other.b / 2\nif (a < b) c()\nelse d()\n")).collect();
    assert_eq!(compile(&bare, Form::Script).err(), None);

    let data: String = (0..4_000).map(|n| format!("{{ id: {n}, name: 'n{n}', tags: ['a', 'b'] }},\n")).collect();
    assert_eq!(compile(&format!("const data = [{data}]; return data.length"), Form::Script).err(), None);

    let minified = "function f(a){return a.b.c(1)}".repeat(4_000);
    assert_eq!(compile(&minified, Form::Script).err(), None);
}

#[test]
fn the_limits_are_what_they_are_said_to_be() {
    let brackets = |n: usize| format!("return {}1{}", "(".repeat(n), ")".repeat(n));
    assert!(compile(&brackets(250), Form::Script).is_ok());
    let fault = compile(&brackets(300), Form::Script).expect_err("too deep");
    assert!(fault.message.contains("256"), "{}", fault.message);
    let chain = |n: usize| format!("return 1{}", " + 1".repeat(n));
    assert!(compile(&chain(1_990), Form::Script).is_ok());
    assert!(compile(&chain(2_010), Form::Script).expect_err("too long").message.contains("2000"));
}
