//! Which route a text takes.

mod support;

use support::Catalog;
use toolgate_plan::{Plan, Query, plan};

fn describe(source: &str) -> String {
    match plan(source, &Catalog) {
        Plan::Direct(call) => format!("direct {}/{} {}", call.backend, call.tool, call.arguments),
        Plan::OneCall(call) => format!("call {}/{} {}", call.backend, call.tool, call.arguments),
        Plan::Introspect(query) => format!("ask {query:?}"),
        Plan::Script(script) => match script.preflight.errors.first() {
            None => "script".to_owned(),
            Some(error) => format!("script with {}", error.code.as_str()),
        },
        Plan::Fault(fault) => format!("fault: {fault}"),
        Plan::BadCall(fault) => format!("bad call: {fault}"),
    }
}

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(describe(source), expected, "{source}");
}

const FIND: &str = r#"call db/find {"q":1}"#;

#[test]
fn one_call_is_seen_in_every_shape() {
    for source in [
        "const r = await db.find({q: 1}); return r;",
        "let r = await db.find({ 'q': 1 })\nreturn r",
        "var result: any = await db.find({ \"q\": 1, });\n\nreturn (result);",
        "const r = db.find({q: 1}); return r",
        "const r = await db.find({q: 1}); r",
        "return await db.find({q:1})",
        "return db.find({q:1})",
        "return (await db.find({q:1}))",
        "await db.find({q:1})",
        "db.find({q:1})",
        "db.find({q:1});",
        "db\n  // a comment\n  .find(\n    /* another */ { q: 1 },\n  )\n;",
        "export default async function main() { return db.find({q:1}) }",
        "export default async () => db.find({q:1})",
        "export async function main(): Promise<any> { const r = await db.find({q:1}); return r }",
        "export const main = async () => { return await db.find({q:1}) }",
        "async () => db.find({q:1})",
        "(async () => { return db.find({q:1}) })",
        "async function () { return db.find({q:1}) }",
        "async function run() { return db.find({q:1}) }",
        "globalThis.db.find({q:1})",
        "globalThis[\"db\"].find({q:1})",
        "tools.db.find({q:1})",
        "tools['db']['find']({q:1})",
        "__backends[\"db\"].find({q:1})",
        "db[\"find\"]({q:1})",
        "```ts\nreturn await db.find({q:1})\n```",
        "interface A { q: number }\nreturn await db.find({ q: 1 } satisfies A)",
        "return (await db.find<Foo>({q: 1 as number}))!",
        "'use strict'; return db.find({q:1})",
    ] {
        check(source, FIND);
    }
}

#[test]
fn arguments_are_read_as_javascript_would() {
    check(
        "db.find({a: -1, b: 0x10, c: `x`, d: [1, null], e: {f: true}, 2: 'two'})",
        r#"call db/find {"2":"two","a":-1,"b":16,"c":"x","d":[1,null],"e":{"f":true}}"#,
    );
    check("db.find()", "call db/find {}");
    check("db.find({})", "call db/find {}");
    check("db.read_file({})", "call db/read-file {}");
    check("db['read-file']({})", "call db/read-file {}");
    check("my_backend.my_tool({})", "call my-backend/my-tool {}");
    check("__backends['my-backend']['my-tool']({})", "call my-backend/my-tool {}");
}

#[test]
fn names_with_hyphens_count_when_they_name_a_tool() {
    let expected = r#"call my-backend/my-tool {"a":1}"#;
    check("my-backend.my-tool({a: 1})", expected);
    check("return await my-backend.my-tool({ a: 1 });", expected);
    check("const r: any = await my-backend.my_tool({a: 1}); return r", expected);
    check("// go\nawait my-backend.my-tool(\n{ a: 1 })", expected);
    check("return (await my-backend.my-tool({a: 1}))", expected);
    check("await (my-backend.my-tool({a: 1}))", expected);
    check("export default async function main() { return my-backend.my-tool({a: 1}) }", expected);
    check("async () => { const r = await my-backend.my-tool({a: 1}); return r }", expected);
    check("interface A { a: number }\nreturn my-backend.my-tool({a: 1} as A)", expected);
    check("db.read-file({a: 1})", r#"call db/read-file {"a":1}"#);
    check("await db.find({q: 1 - my-backend.my-tool({a: 1})})", "script");
    check("await Promise.all([my-backend.my-tool({a: 1})])", "script");
    check("'my-backend.my-tool({a: 1})'", "script");
    check("my-backend.nope({a: 1})", "script");
    check("my-other.tool({a: 1})", "script");
    check("my-backend.my-tool({a: x})", "script");
    check("const x = 1; my-backend.my-tool({a: 1})", "script");
    check("return 1 + my-backend.my-tool({a: 1})", "script");
    check("const a = b-c.d, e = my-backend.my-tool({a: 1}); return e", "script");
}

#[test]
fn plain_json_is_a_direct_call() {
    check(r#"{"tool": "db.find", "arguments": {"q": 1}}"#, r#"direct db/find {"q":1}"#);
    check(r#"{"tool": "db.find"}"#, "direct db/find {}");
    check(" ```json\n{\"arguments\": {}, \"tool\": \"my-backend.my-tool\"}\n``` ", "direct my-backend/my-tool {}");
    check(r#"{"tool": "has.dots.t"}"#, "direct has.dots/t {}");
    check(r#"{"tool": "has_dots.t"}"#, "direct has.dots/t {}");
    check(r#"{"tool": "db.find", "arguments": [1]}"#, "bad call: `arguments` must be an object");
    check(r#"{"tool": 1}"#, "bad call: `tool` must be a string");
    check(r#"{"tool": "db.find", "x": 1}"#, "bad call: `x` is not expected beside `tool` and `arguments`");
    check(r#"{"tool": "search_tools"}"#, "bad call: There is no tool `search_tools` behind a backend");
    check(r#"{"tool": "db.fnd"}"#, "bad call: There is no tool `db.fnd`");
    check(
        r#"{"tool": "db.find", "arguments": {"q": 1,}}"#,
        "fault: The call is not valid JSON: there is a comma after the last item",
    );
    check(
        r#"{"tool": "db.find", 'arguments': {}}"#,
        "fault: The call is not valid JSON: texts and keys need double quotes",
    );
    for (wrong, what) in [
        ("x", "`x` is not expected here"),
        ("tru", "`}` is not expected here"),
        ("1e999", "a number is not written as JSON has it, or is too large"),
        ("01", "a number is not written as JSON has it, or is too large"),
        ("\"a\nb\"", "a line break or tab inside a text must be written as \\n or \\t"),
        ("\"\\q\"", "`q` is not expected here"),
        ("1 é", "`é` is not expected here"),
    ] {
        let text = format!("{{\"tool\": \"db.find\", \"arguments\": {{\"q\": {wrong}}}}}");
        check(&text, &format!("fault: The call is not valid JSON: {what}"));
    }
    // Two levels are the call's own.
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!("{{\"tool\": \"db.find\", \"arguments\": {{\"q\": {open}{close}}}}}")
    };
    check(" \n", "fault: There is no program: the text is empty");
    check(&nested(126), "fault: The call is nested deeper than 127 levels");
    check(&nested(900), "fault: The call is nested deeper than 127 levels");
    assert!(matches!(plan(&nested(125), &Catalog), Plan::Direct(_)));
    check(
        r#"{"tool": "db.find", "arguments": {"q": "\ud800"}}"#,
        "fault: The call is not valid JSON: a text has half of a character",
    );
    check("{\"arguments\": {\"q\": 1}, \"tool\": \"db.find\"", "fault: The call is not valid JSON: it ends too early");
    check(r#"{"other": 1}"#, "fault: Expected a semicolon or an implicit semicolon after a statement, but found none");
}

#[test]
fn a_fault_in_json_has_its_place_in_the_text() {
    let source = " ```json\n{\"tool\": \"db.find\",\n \"arguments\": {\"é\": x}}\n```";
    let Plan::Fault(fault) = plan(source, &Catalog) else { panic!("a fault") };
    assert_eq!(fault.position, Some(toolgate_plan::Position { line: 3, column: 21 }));
}

#[test]
fn questions_about_tools_need_no_engine() {
    let ask = |query: Query| format!("ask {query:?}");
    let (backend, tool) = ("my-backend".to_owned(), "my-tool".to_owned());
    check("__interfaces", &ask(Query::All));
    check("return __interfaces;", &ask(Query::All));
    check("return await __interfaces.my_backend", &ask(Query::Backend(backend.clone())));
    check("__interfaces['my-backend']['my-tool']", &ask(Query::Tool { backend: backend.clone(), tool: tool.clone() }));
    check("return __interfaces.my_backend.my_tool.input_schema", &ask(Query::InputSchema { backend, tool }));
    check("return __getToolInterface(\"db.find\")", &ask(Query::Find("db.find".into())));
    check("await __getToolInterface('nope')", &ask(Query::Find("nope".into())));
    check("__interfaces.nope", "script");
    check("__interfaces.db.find.name", "script");
    check("__interfaces?.db", "script");
    check("__interfaces.db.constructor", "script");
    check("__getToolInterface(x)", "script");
    check("const __interfaces = 1; return __interfaces", "script");
    check("Object.keys(__interfaces)", "script");
}

#[test]
fn every_doubt_is_a_script() {
    for source in [
        "Math.max(5)",
        "Math.max({})",
        "globalThis.Math.max({})",
        "Date.now()",
        "const {a} = await db.find({}); return a",
        "const r = await db.find({\"q\":1}); return 42",
        "const r = await db.find({}); return other",
        "const r = await db.find({}); return r.x",
        "const r = await db.find({})",
        "const r = await db.find({}), s = 1; return r",
        "using r = await db.find({}); return r",
        "db.find({...x})",
        "db.find({q})",
        "db.find({q: undefined})",
        "db.find({q: 1n})",
        "db.find({q: 1e999})",
        "db.find({__proto__: {}})",
        "db.find({['q']: 1})",
        "db.find(x)",
        "db.find('x')",
        "db.find([1])",
        "db.find({}, {})",
        "db.find(...[{}])",
        "db?.find({})",
        "db.find?.({})",
        "new db.find({})",
        "db.find({}).then(x => x)",
        "db.find({}).x",
        "!db.find({})",
        "void db.find({})",
        "typeof db.find({})",
        "db.find({}); db.find({})",
        "if (true) { return db.find({}) }",
        "try { return db.find({}) } catch {}",
        "// db.find()",
        "const db = await db.find({}); return db",
        "var db = await db.find({}); return db",
        "const tools = await tools.db.find({}); return tools",
        "const globalThis = await globalThis.db.find({}); return globalThis",
        "async function db() { return db.find({}) }",
        "export default async function main(db) { return db.find({}) }",
        "export default async function main({ a }) { return db.find({}) }",
        "export default async function main() { db.find({}) }",
        "export default async function main() { await db.find({}) }",
        "export default async function* main() { return db.find({}) }",
        "export async function other() { return db.find({}) }",
        "export default db.find({})",
        "async () => { db.find({}) }",
        "(async () => db.find({}))()",
        "exa.constructor({})",
        "db.find`x`",
        "await Promise.all([db.find({})])",
        "return db.find({}), 1",
        "return [await db.find({})]",
        "a: db.find({})",
        "{ db.find({}) }",
    ] {
        check(source, "script");
    }
}

/// `await exa` would call such a tool, so it is a property of its backend by its identifier alone.
#[test]
fn a_tool_that_javascript_would_call_is_not_found_by_its_own_name_in_a_program() {
    check("exa.then({})", "script with unknown_tool");
    check(r#"{"tool": "exa.then", "arguments": {}}"#, "direct exa/then {}");
}

#[test]
fn what_is_no_program_is_a_fault() {
    for source in ["db.find()))", "db.find({", "})();evil("] {
        assert!(describe(source).starts_with("fault"), "{source}: {}", describe(source));
    }
}

#[test]
fn a_nul_character_is_a_fault_wherever_it_stands() {
    for source in ["return '\0'", "return 1 // \0", "db.find({q: '\0'})", "\0"] {
        check(source, "fault: A NUL character is not allowed in code");
    }
    check("db.find({q: '\\0'})", r#"call db/find {"q":"\u0000"}"#);
}

#[test]
fn a_call_that_cannot_work_is_left_to_the_preflight() {
    check("exa.web_serch({})", "script with unknown_tool");
    check("exa.web_search({})", "script with invalid_arguments");
    check("exa.web_search({query: 1})", "script with invalid_arguments");
    check("exa.web_search({query: 'a', count: 2})", r#"call exa/web_search {"query":"a","count":2}"#);
}

#[test]
fn a_call_as_json_may_leave_out_its_backend_and_its_arguments() {
    check(r#"{"tool": "web_search", "arguments": {"query": "x"}}"#, r#"direct exa/web_search {"query":"x"}"#);
    check(r#"{"tool": "my_tool"}"#, "direct my-backend/my-tool {}");
    check(r#"{"tool": "db.find", "arguments": null}"#, "direct db/find {}");
    check(r#"{"tool": "t", "arguments": null}"#, "direct has.dots/t {}");
    check(r#"{"tool": "nowhere"}"#, "bad call: There is no tool `nowhere`");
    let Plan::BadCall(fault) = plan(r#"{"tool": "web_serch"}"#, &Catalog) else { panic!("no such tool") };
    assert_eq!(fault.hint.as_deref(), Some("Did you mean `exa.web_search`?"));
}

#[test]
fn integers_of_a_call_as_json_keep_their_digits() {
    check(r#"{"tool": "db.find", "arguments": {"id": 9007199254740993}}"#, r#"direct db/find {"id":9007199254740993}"#);
    check(
        r#"{"tool": "db.find", "arguments": {"id": 18446744073709551615}}"#,
        r#"direct db/find {"id":18446744073709551615}"#,
    );
    check(
        r#"{"tool": "db.find", "arguments": {"id": [36893488147419103233]}}"#,
        "bad call: The integer 36893488147419103233 would lose digits: it needs more than 64 bits",
    );
}

#[test]
fn a_call_with_an_integer_that_loses_digits_is_left_to_the_preflight() {
    check("return db.find({ id: 9007199254740992 })", r#"call db/find {"id":9007199254740992}"#);
    check("return db.find({ id: 9007199254740993 })", "script");
    check("my-backend.my-tool({ id: 9007199254740993 })", "script");
}
