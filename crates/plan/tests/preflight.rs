//! What is said about a program before it runs.

mod support;

use support::Catalog;
use toolgate_plan::{Arguments, FailureFacts, Finding, FindingCode, Position, hint_for, hint_for_timeout, preflight};
use toolgate_wire::{ErrorClass, Profile};

fn line(kind: &str, finding: &Finding) -> String {
    let at = format!("{}:{}", finding.position.line, finding.position.column);
    let suggestion = finding.suggestion.as_deref().map(|text| format!(" ({text})")).unwrap_or_default();
    format!("{kind} {} {at} {}{suggestion}", finding.code.as_str(), finding.message)
}

fn findings(source: &str) -> Vec<String> {
    let found = preflight(source, &Catalog).expect(source);
    found
        .errors
        .iter()
        .map(|one| line("error", one))
        .chain(found.warnings.iter().map(|one| line("warning", one)))
        .collect()
}

#[track_caller]
fn check(source: &str, expected: &[&str]) {
    assert_eq!(findings(source), expected, "{source}");
}

#[test]
fn an_unknown_tool_is_an_error_with_suggestions() {
    check(
        "await exa.web_serch({})",
        &["error unknown_tool 1:11 Backend `exa` has no tool `web_serch` (Did you mean `web_search`?)"],
    );
    check(
        "if (await tools.exa['web-search-x']({})) return 1",
        &["error unknown_tool 1:21 Backend `exa` has no tool `web-search-x` (Did you mean `web_search`?)"],
    );
    check("return db.zzz({})", &["error unknown_tool 1:11 Backend `db` has no tool `zzz` (It has find, read_file.)"]);
}

#[test]
fn what_the_program_may_have_changed_or_asked_for_is_no_error() {
    check(
        "exa.mine = () => 1; return exa.mine()",
        &[
            "warning unknown_tool 1:32 Backend `exa` has no tool `mine` (It has web_search, fetch_page, then, constructor.)",
        ],
    );
    check(
        "globalThis.exa = {}; return exa.mine()",
        &[
            "warning unknown_tool 1:33 Backend `exa` has no tool `mine` (It has web_search, fetch_page, then, constructor.)",
        ],
    );
    check(
        "exa = {}; return exa.mine()",
        &[
            "warning unknown_tool 1:22 Backend `exa` has no tool `mine` (It has web_search, fetch_page, then, constructor.)",
        ],
    );
    check(
        "if (exa.mine) return exa.mine()",
        &[
            "warning unknown_tool 1:26 Backend `exa` has no tool `mine` (It has web_search, fetch_page, then, constructor.)",
        ],
    );
    check(
        "if ('mine' in exa) return exa.mine()",
        &[
            "warning unknown_tool 1:31 Backend `exa` has no tool `mine` (It has web_search, fetch_page, then, constructor.)",
        ],
    );
    check(
        "return exa.mine?.()",
        &[
            "warning unknown_tool 1:12 Backend `exa` has no tool `mine` (It has web_search, fetch_page, then, constructor.)",
        ],
    );
}

/// Programs that may run to their end although the call `@` fails.
const SURVIVORS: &[&str] = &[
    // Handled where it happens.
    "try { await @ } catch { return 'none' }",
    "try { return await @ } catch (error) { return error.code }",
    "let found; try { found = await @ } catch (e) { found = [] } return found",
    "try { const [a, b] = await Promise.all([@, db.find({})]); return a } catch { return null }",
    "try { try { await @ } finally { await db.find({}) } } catch { return 1 }",
    "async function find() { try { return await @ } catch { return null } }\nreturn await find()",
    "try { await @ } finally { return 1 }",
    "for (;;) { try { await @ } finally { break } }",
    // Handled by its promise.
    "return await @.catch(() => null)",
    "@.catch(() => null)",
    "return await @.then(r => r, () => null)",
    "return await @.then(r => r).catch(() => null)",
    "const r = await @.then(...handlers); return r",
    "return (await Promise.allSettled([@, db.find({})])).map(one => one.status)",
    "const results = await Promise.allSettled([1].map(() => @)); return results.length",
    "return await Promise.any([@, db.find({})])",
    "return await Promise.race([db.find({}), @])",
    "const Promise = { all: async () => 1 }; return await Promise.all([@])",
    "const settle = async (p) => { try { return await p } catch { return null } }; return await settle(@)",
    "const both = [@, db.find({})]; return (await Promise.allSettled(both)).length",
    "return await retry(() => @)",
    "const later = @; return await later.catch(() => null)",
    "const later = @; try { return await later } catch { return null }",
    // Reached only sometimes.
    "if (Math.random() > 2) await @; return 1",
    "if (Math.random() < 2) return 1; await @",
    "if (a) { if (b) { return 1 } } else { await @ } return 2",
    "for (const q of []) await @; return 1",
    "for (let i = 0; i < 0; i++) { await @ }",
    "while (Math.random() > 2) { await @ }",
    "do { if (Math.random() < 2) break; await @ } while (true)",
    "for (const q of [1]) { if (q) return q } return await @",
    "switch (Math.random()) { case 2: await @ }",
    "done: { if (Math.random() < 2) break done; await @ } return 1",
    "const r = Math.random() > 2 ? await @ : null; return r",
    "const r = Math.random() > 2 && await @; return r",
    "const r = Math.random() < 2 || await @; return r",
    "let r = 1; r ??= await @; return r",
    "return context?.query?.(await @)",
    "const { r = await @ } = { r: 1 }; return r",
    "const later = async () => { await @ }; return 1",
    "async function later() { await @ } return 1",
    "const main = async () => { if (Math.random() < 2) return 1; await @ }; return await main()",
    "function* each() { yield @ } for (const one of each()) break; return 1",
    "class Client { find() { return @ } } return new Client().constructor.name",
    "[].map(async () => await @); return 1",
    "return await Promise.all([].map(() => @))",
    "let run = async () => @; run = async () => 1; return await run()",
    // What is called may be the program's own.
    "globalThis.exa = { web_search: async () => 1, nope: async () => 1 }; return await @",
    "exa = { web_search: async () => 1, nope: async () => 1 }; return await @",
    "[exa] = [{ web_search: async () => 1, nope: async () => 1 }]; return await @",
    "({ a: globalThis.exa } = { a: { web_search: async () => 1, nope: async () => 1 } }); return await @",
    "Object.assign(globalThis, { exa: { web_search: async () => 1, nope: async () => 1 } }); return await @",
    "const key = 'exa'; globalThis[key] = { web_search: async () => 1, nope: async () => 1 }; return await @",
    "this.exa = { web_search: async () => 1, nope: async () => 1 }; return await @",
    "const all = globalThis; all.exa = { web_search: async () => 1, nope: async () => 1 }; return await @",
    "Promise.all = async () => 1; return await Promise.all([@])",
    "eval('globalThis.exa = {}'); return await @",
];

/// Programs that certainly fail when the call `@` does.
const VICTIMS: &[&str] = &[
    "@",
    "await @",
    "return @",
    "return await @",
    "const r = await @; return r",
    "let r; r = await @; return r",
    "const { items } = await @; return items",
    "return (await @).items.length",
    "console.log(await @)",
    "return `${await @}`",
    "return { found: await @ }",
    "if ((await @).length > 1) { return 1 }",
    "for (const one of await @) console.log(one)",
    "for (let i = (await @).n; i > 0; i--) {}",
    "switch (await @) { default: return 1 }",
    "{ await @ }",
    "try { await @ } finally { console.log('end') }",
    "try { await db.find({}) } catch {} finally { await @ }",
    "try { await db.find({}) } catch { console.log('no') } return await @",
    "if (Math.random() > 2) { console.log(1) } await @",
    "[1].map(x => { return x }); await @",
    "await @.then(r => r.items)",
    "return @.finally(() => console.log(1))",
    "const [a, b] = await Promise.all([db.find({}), @]); return a",
    "return Promise.all([@])",
    "return (await @) && 1",
    "throw new Error(await @)",
    "return await (async () => { return await @ })()",
    "(async () => { await @ })()",
    "async function main() { await @ }\nmain()",
    "async function main() { await @ }\nreturn await main()",
    "const main = async () => @; return main()",
    "async () => { return await @ }",
    "export default async function main() { return await @ }",
    "export default async () => @",
    "const a = await db.find({}); const b = await @; return [a, b]",
];

#[test]
fn no_program_is_refused_that_may_survive_the_failure() {
    for shape in SURVIVORS {
        for call in ["exa.web_search({})", "exa.nope({})", "tools.exa.nope({})"] {
            let source = shape.replace('@', call);
            let found = preflight(&source, &Catalog).expect(&source);
            assert!(found.errors.is_empty(), "{source}\n{:?}", found.errors);
        }
    }
}

#[test]
fn a_program_is_refused_that_certainly_fails() {
    for shape in VICTIMS {
        for call in ["exa.web_search({})", "exa.nope({})"] {
            let source = shape.replace('@', call);
            let found = preflight(&source, &Catalog).expect(&source);
            assert_eq!(found.errors.len(), 1, "{source}\n{:?}", found.warnings);
        }
    }
}

#[test]
fn nested_functions_are_walked_once() {
    let source = format!("{}await exa.nope({{}}){}", "return await (async () => { ".repeat(60), " })()".repeat(60));
    assert_eq!(preflight(&source, &Catalog).expect("a program").errors.len(), 1);
    let calls: String = (0..2_000).map(|n| format!("async function f{n}() {{ await f{}() }}\n", n + 1)).collect();
    let source = format!("{calls}async function f2000() {{ await exa.nope({{}}); await f0() }}\nreturn await f0()");
    assert_eq!(preflight(&source, &Catalog).expect("a program").errors.len(), 1);
}

#[test]
fn nested_loops_cost_little() {
    let source = format!("{}break; return 1", "while (Date.now() < 1) ".repeat(500));
    let found = preflight(&source, &Catalog).expect("a program");
    assert!(found.warnings.iter().any(|finding| finding.code.as_str() == "busy_wait"));
}

#[test]
fn literal_arguments_that_do_not_fit_are_errors() {
    check("await exa.web_search({})", &["error invalid_arguments 1:22 exa.web_search: `query` is required"]);
    check("await exa.web_search()", &["error invalid_arguments 1:7 exa.web_search: `query` is required"]);
    check("await exa.web_search('x')", &["error invalid_arguments 1:22 exa.web_search: must be an object"]);
    check(
        "await exa.web_search({ query: 1, limit: 2 })",
        &[
            "error invalid_arguments 1:22 exa.web_search: `query` must be a string",
            "error invalid_arguments 1:22 exa.web_search: `limit` is not expected",
        ],
    );
    check("for (const q of qs) await exa.web_search({ query: 'a' }); return 1", &[]);
}

#[test]
fn arguments_that_are_known_in_part_give_warnings_at_most() {
    check("await exa.web_search({ query })", &[]);
    check("await exa.web_search({ query: q, count: n })", &[]);
    check("await exa.web_search({ ...rest })", &[]);
    check(
        "await exa.web_search({ count: n })",
        &["warning invalid_arguments 1:22 exa.web_search: `query` is required"],
    );
    check(
        "await exa.web_search({ query: q, limit: n })",
        &["warning invalid_arguments 1:22 exa.web_search: `limit` is not expected"],
    );
    check(
        "await exa.web_search({ query: q, count: 'x' })",
        &["warning invalid_arguments 1:22 exa.web_search: `count` must be a number"],
    );
    check("await exa.web_search(q, 1)", &["warning invalid_arguments 1:22 exa.web_search takes one argument object"]);
    check("await exa.web_search(q)", &[]);
}

#[test]
fn a_dropped_promise_is_a_warning() {
    check(
        "db.find({}); return 1",
        &["warning not_awaited 1:1 The call of db.find is never awaited (Write `await` before it.)"],
    );
    check(
        "void db.find({}); return 1",
        &["warning not_awaited 1:6 The call of db.find is never awaited (Write `await` before it.)"],
    );
    check(
        "db.find({}).catch(e => e); return 1",
        &["warning not_awaited 1:1 The call of db.find is never awaited (Write `await` before it.)"],
    );
    check(
        "const p = db.find({}); return 1",
        &["warning not_awaited 1:11 The call of db.find is never awaited (Write `await` before it.)"],
    );
    check("const p = db.find({}); return await p", &[]);
    check("db.find({})", &[]);
    check("const ps = [1].map(q => db.find({ q })); return Promise.all(ps)", &[]);
}

#[test]
fn a_promise_used_as_a_value_is_a_warning() {
    check(
        "const r = db.find({}); return r.items",
        &["warning missing_await 1:33 `r` is a promise, so it has no `items` (Write `await` before the call.)"],
    );
    check(
        "return db.find({}).items",
        &[
            "warning missing_await 1:20 `db.find(…)` is a promise, so it has no `items` (Write `await` before the call.)",
        ],
    );
    check("const r = await db.find({}); return r.items", &[]);
    check("let r = db.find({}); r = await r; return r.items", &[]);
    check("const { then } = db.find({}); return 1", &[]);
    check("const r = db.find({}); return [r === r, Promise.all([r])]", &[]);
    let promise = |at: &str, why: &str| format!("warning missing_await {at} {why} (Write `await` before the call.)");
    for (source, at, why) in [
        ("const { items } = db.find({}); return items", "1:19", "`db.find(…)` is a promise, so it has no `items`"),
        ("const [first] = db.find({}); return first", "1:17", "`db.find(…)` is a promise, so it has no items"),
        ("const r = db.find({}); return `${r}`", "1:34", "`r` is a promise, so it is no number and no text"),
        ("const r = db.find({}); return r + 1", "1:31", "`r` is a promise, so it is no number and no text"),
        ("const r = db.find({}); return 1 < r", "1:35", "`r` is a promise, so it is no number and no text"),
        ("return JSON.stringify(db.find({}))", "1:23", "`db.find(…)` is a promise, so it shows nothing of its value"),
        ("const r = db.find({}); return Object.keys(r)", "1:43", "`r` is a promise, so it shows nothing of its value"),
    ] {
        check(source, &[&promise(at, why)]);
    }
    check("const r = db.find({}); return r.then(x => x)", &[]);
}

#[test]
fn a_variable_that_hides_a_backend_is_a_warning() {
    let hidden = "`exa` is a backend, and this variable hides it (Call it `exaResult`.)";
    check("const exa = await exa.search(); return exa", &[&format!("warning shadowed_backend 1:7 {hidden}")]);
    check("return [1].map(exa => exa.id)", &[&format!("warning shadowed_backend 1:16 {hidden}")]);
    check("try { x() } catch ({ exa }) { return exa.nope() }", &[&format!("warning shadowed_backend 1:22 {hidden}")]);
    check(
        "{ let exa = 1 } await exa.nope({})",
        &[
            "error unknown_tool 1:27 Backend `exa` has no tool `nope` (It has web_search, fetch_page, then, constructor.)",
            &format!("warning shadowed_backend 1:7 {hidden}"),
        ],
    );
    check("function f({ a: [exa] = [] }) { return exa.nope() }", &[&format!("warning shadowed_backend 1:18 {hidden}")]);
    check("type exa = number; return 1", &[]);
}

#[test]
fn a_misspelt_backend_is_a_warning() {
    check("await exaa.web_search({})", &["warning unknown_backend 1:7 `exaa` is not defined (Did you mean `exa`?)"]);
    check(
        "await tools.exaa.web_search({})",
        &["warning unknown_backend 1:18 There is no backend `exaa` (Did you mean `exa`?)"],
    );
    check("await other.thing({}); Math.max(1)", &[]);
}

#[test]
fn a_misspelt_backend_is_an_error_in_a_program_with_other_calls() {
    check(
        "await db.find({}); return await exaa.web_search({})",
        &["error unknown_backend 1:33 `exaa` is not defined (Did you mean `exa`?)"],
    );
    check(
        "await db.find({}); return await tools.exaa.web_search({})",
        &["error unknown_backend 1:44 There is no backend `exaa` (Did you mean `exa`?)"],
    );
    for survives in [
        "if (x) await exaa.web_search({}); return 1",
        "try { await exaa.web_search({}) } catch {} return 1",
        "exaa = { web_search() {} }; return await exaa.web_search({})",
        "globalThis.exaa = other; return await exaa.web_search({})",
        "const f = async () => { await exaa.web_search({}) }; return 1",
        "return typeof exaa === 'undefined' ? 1 : await exaa.web_search({})",
    ] {
        let survives = &format!("await db.find({{}}); {survives}");
        let found = preflight(survives, &Catalog).expect(survives);
        assert_eq!(found.errors, [], "{survives}");
        assert!(found.warnings.iter().any(|one| one.code == FindingCode::UnknownBackend), "{survives}");
    }
}

#[test]
fn a_program_without_a_result_is_a_warning() {
    let ends_with = |at: &str, name: &str| {
        format!(
            "warning no_result {at} The program returns nothing: it ends with the declaration of `{name}` (End it with `return {name}`.)"
        )
    };
    let nothing =
        |at: &str| format!("warning no_result {at} The program returns nothing (`return` what you want to see.)");
    check("const info = __getToolInterface('x')", &[&ends_with("1:1", "info")]);
    check("const a = 1, b = 2; function f() { return 1 }", &[&ends_with("1:1", "b")]);
    check("console.log(1); let a = 1", &[&ends_with("1:17", "a")]);
    check("export const x = 5", &[&ends_with("1:1", "x")]);
    let called = "The program returns nothing: it ends with the declaration of `f` (End it with `return await f()`.)";
    check("const f = async () => { return 5 }", &[&format!("warning no_result 1:1 {called}")]);
    check("const f = function () { return 5 }", &[&format!("warning no_result 1:1 {called}")]);
    check("try { add(1) } catch (e) { console.error(e) }", &[&nothing("1:1")]);
    check("const { a } = x", &[&nothing("1:1")]);
    check("if (x) { y() }", &[&nothing("1:1")]);
    check("for (const one of list) { add(one); continue }", &[&nothing("1:1")]);
    check("if (x) return; y = [1].map(n => { return n }); while (z) {}", &[&nothing("1:48")]);
    check("async function main() { const a = 1 } main()", &[&ends_with("1:25", "a")]);
    check(
        "async function main() { add(1) }\nasync function run() { return main() }\nawait main()",
        &[&nothing("1:25")],
    );
    check("const main = async () => { const a = 1 }; await main()", &[&ends_with("1:28", "a")]);
    check("(async () => { const a = 1 })()", &[&ends_with("1:16", "a")]);
    check("async () => { const a = 1 }", &[&ends_with("1:15", "a")]);
    check("export default async function () { const a = 1 }", &[&ends_with("1:36", "a")]);
    check("export async function main() { add(1) }", &[&nothing("1:32")]);
    for source in [
        "// nothing",
        "type A = 1",
        "1",
        "add(1)",
        "return",
        "if (x) return 1; const a = 2",
        "const a = 1; return a",
        "const a = 1; a",
        "for (const one of list) console.log(one)",
        "try { console.log(add(1)) } catch (e) { console.error(e) }",
        "throw new Error('x')",
        "async function main() { if (x) return 1 } main()",
        "const main = async () => 1; main()",
        "let main = async () => {}; main = async () => 1; main()",
        "function f() { g() } function g() { f() } return 1",
        "const f = () => g(); const g = () => f(); f()",
        "export const main = async () => 1",
        "export const main = 5",
        "export default 5",
    ] {
        check(source, &[]);
    }
}

#[test]
fn a_loop_that_waits_for_the_clock_is_a_warning() {
    let still = |at: &str| {
        format!(
            "warning busy_wait {at} The clock stands still in synchronous code: this loop sees the same time in every round (Wait with `await sleep(ms)`.)"
        )
    };
    check("const end = Date.now() + 9; while (Date.now() < end); return 1", &[&still("1:29")]);
    check("do { n++ } while (new Date() < end); return n", &[&still("1:1")]);
    check("for (const t = Date.now(); Date.now() - t < 9;) {} return 1", &[&still("1:1")]);
    check("while (true) { if (performance.now() > 9) break } return 1", &[&still("1:1")]);
    check("const wait = () => { while (Date.now() < end) {} }; return wait()", &[&still("1:22")]);
    check("while (Date.now() < end) { await sleep(9) } return 1", &[]);
    check("while (Date.now() < end) { for await (const x of y) z(x) } return 1", &[]);
    check("for (const x of list) { x.at = Date.now() } return list", &[]);
    check("while (list.length) { list.pop().at = new Date() } return 1", &[]);
    check("while (new Date(0) < end) { step() } return 1", &[]);
    let hint = hint_for_timeout("const end = Date.now() + 9; while (Date.now() < end) {} return 1", &Catalog);
    assert_eq!(
        hint.as_deref(),
        Some(
            "The clock stands still in synchronous code: this loop sees the same time in every round. Wait with `await sleep(ms)`."
        )
    );
    assert_eq!(hint_for_timeout("for (;;);", &Catalog), None);
}

#[test]
fn an_integer_that_loses_digits_is_a_warning() {
    let rounded = |at: &str, number: &str| {
        format!(
            "warning rounded_number {at} `{number}` is rounded: JavaScript's integers are exact up to 2^53 (Write it as a string, or send the call as JSON.)"
        )
    };
    check("return db.find({ id: 9007199254740993 })", &[&rounded("1:22", "9007199254740993")]);
    check("const id = 0x20000000000001; return db.find({ id })", &[&rounded("1:12", "0x20000000000001")]);
    check("return db.find({ id: 9007199254740992, other: 9007199254740993n, price: 1e30 })", &[]);
}

#[test]
fn the_calls_are_listed_with_what_is_known_of_their_arguments() {
    let found = preflight(
        "const a = await db.find({ q: 1 });\nawait exa.fetch_page({ url: a, ...b });\nreturn db.find(a)",
        &Catalog,
    )
    .expect("ok");
    let listed: Vec<String> = found
        .calls
        .iter()
        .map(|call| {
            let at = call.position.map(|at| format!("{}:{}", at.line, at.column)).unwrap_or_default();
            let arguments = match &call.arguments {
                Arguments::Known(value) => value.to_string(),
                Arguments::Partial { literals, dynamic, open } => {
                    format!("{} literals, {dynamic:?}, open {open}", literals.len())
                }
                Arguments::Unknown => "unknown".to_owned(),
            };
            format!("{}/{} {at} {arguments}", call.backend, call.tool)
        })
        .collect();
    assert_eq!(
        listed,
        ["db/find 1:17 {\"q\":1}", "exa/fetch_page 2:7 0 literals, [\"url\"], open true", "db/find 3:8 unknown"]
    );
}

#[track_caller]
fn hint(source: &str, at: Option<(u32, u32)>, expected: Option<&str>) {
    let position = at.map(|(line, column)| Position { line, column });
    let failure = FailureFacts { source, class: Some(ErrorClass::Type), position, profile: Profile::Chain };
    assert_eq!(hint_for(&failure, &Catalog).as_deref(), expected, "{source}");
}

#[test]
fn a_failure_teaches() {
    hint(
        "const exa = await exa.search()",
        Some((1, 19)),
        Some("`exa` is a backend, and this variable hides it. Call it `exaResult`."),
    );
    hint("return await exaa.web_search({})", Some((1, 14)), Some("`exaa` is not defined. Did you mean `exa`?"));
    hint("return await EXA.web_search({})", Some((1, 14)), Some("`EXA` is not defined. Did you mean `exa`?"));
    hint(
        "return await exa.web_serch({})",
        Some((1, 18)),
        Some("Backend `exa` has no tool `web_serch`. Did you mean `web_search`?"),
    );
    hint(
        "return await web_search({})",
        Some((1, 14)),
        Some("`web_search` is a tool: call it as `exa.web_search({…})`."),
    );
    hint(
        "return await fetch('x')",
        Some((1, 14)),
        Some("There is no network in the sandbox. This can do it: `exa.fetch_page({…})`."),
    );
    hint(
        "const fs = require('fs')",
        Some((1, 12)),
        Some("There are no modules in the sandbox. JavaScript's own objects are there, and tools are global objects."),
    );
    hint(
        "return fs.readFileSync('x')",
        Some((1, 8)),
        Some("There is no file system in the sandbox. This can do it: `db.read_file({…})`."),
    );
    hint(
        "return process.env",
        Some((1, 8)),
        Some("There is no `process` and no environment in the sandbox. Use what the global `context` or a tool gives."),
    );
    hint(
        "const r = db.find({})\nreturn r.items.map(x => x)",
        Some((2, 1)),
        Some("`r` is a promise, so it has no `items`. Write `await` before the call."),
    );
    hint(
        "const r = db.find({})\nconst i = r.items\nreturn i.map(x => x)",
        Some((3, 8)),
        Some("`r` is a promise, so it has no `items`. Write `await` before the call."),
    );
    let subtraction =
        |path: &str| format!("`{path}` is a subtraction in JavaScript. Write `my_backend.my_tool({{…}})`.");
    hint(
        "const r = await my_backend.my-tool({}); return r.items",
        Some((1, 31)),
        Some(&subtraction("my_backend.my-tool")),
    );
    hint(
        "const n = (await my-backend.my-tool({})).length; return n",
        Some((1, 18)),
        Some(&subtraction("my-backend.my-tool")),
    );
    hint("null.x", Some((1, 1)), None);
    hint("const fetch = () => 1; return fetch().x.y", Some((1, 30)), None);
    hint("syntax error here (", None, None);
    let text = hint_for(
        &FailureFacts {
            source: "return search_tools('x')",
            class: Some(ErrorClass::Reference),
            position: None,
            profile: Profile::Chain,
        },
        &Catalog,
    );
    assert!(text.is_some_and(|text| text.contains("meta-tool")));
}
