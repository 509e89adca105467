//! A tool that a caller may not use is to it as if it did not exist: invariant 8.

use serde_json::json;
use toolgate_run::{FastPaths, RunRequest};
use toolgate_wire::{Access, CallErrorCode, CallRate, CallerScope};

use crate::runner::{Case, cases};
use crate::support::{asking, chain, run, shown};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        access::what_is_denied_looks_as_if_it_were_not_there,
        access::a_tool_that_is_denied_looks_as_if_it_were_not_there,
        access::what_a_backend_has_is_listed_as_far_as_the_caller_may_use_it,
        access::a_caller_makes_as_many_calls_as_its_rate_says,
    ]
}

const TEXTS: [&str; 26] = [
    "return await secret.read({})",
    "secret.read({})",
    "return await tools.secret.read({})",
    "return await tools['secret']['read']({})",
    "return await __backends.secret.read({})",
    "return await globalThis.secret.read({})",
    "return await secrett.read({})",
    "return await open.read({})",
    "return await open.reed({})",
    "return await read({})",
    "return await hidden({})",
    "return typeof secret",
    "return 'secret' in tools",
    "return Object.keys(tools)",
    "__interfaces",
    "const i = __interfaces; return i",
    "__interfaces.secret",
    "return [__interfaces.secret === undefined]",
    "__getToolInterface('secret.read')",
    "const n = 'secret.read'; return __getToolInterface(n)",
    "__getToolInterface('read')",
    "const n = 'read'; return __getToolInterface(n)",
    "{\"tool\": \"secret.read\", \"arguments\": {}}",
    "{\"tool\": \"secret.reed\", \"arguments\": {}}",
    "const secret = 1; return secret",
    "return await fetch('x')",
];

pub(crate) fn what_is_denied_looks_as_if_it_were_not_there() {
    let open = json!({ "tools": [{ "name": "read", "reply": "open" }] });
    let secret = json!({ "tools": [{ "name": "read", "reply": "secret" }, { "name": "hidden", "reply": 1 }, { "name": "fetch_secret", "reply": 1 }] });
    let without = chain(&json!({ "backends": { "open": open } }));
    let denied = chain(&json!({ "backends": { "open": open, "secret": secret } }));
    let caller = CallerScope { backends: Access::only(["open"]), ..CallerScope::default() };
    for text in TEXTS {
        for fast_paths in [FastPaths::Allowed, FastPaths::Off] {
            let request = RunRequest { fast_paths, ..asking(text) };
            let absent = shown(&run(&without, request.clone()));
            let refused = shown(&run(&denied, RunRequest { caller: caller.clone(), ..request }));
            assert_eq!(absent, refused, "{text}");
        }
    }
}

const TOOL_TEXTS: [&str; 24] = [
    "return await open.hidden({})",
    "open.hidden({})",
    "return await tools.open.hidden({})",
    "const name = 'hidden'; return await open[name]({})",
    "try { return await open.hidden({}) } catch (e) { return [e.name, e.code, e.message] }",
    "return await open.hiden({})",
    "return await open.xyzzy({})",
    "const name = 'xyzzy'; return await open[name]({})",
    "return await open.read({})",
    "return await hidden({})",
    "return await hiden({})",
    "return await gone.hidden({})",
    "return 'hidden' in open",
    "return Object.keys(open)",
    "__interfaces",
    "const i = __interfaces; return i.open",
    "__interfaces.open.hidden",
    "__getToolInterface('open.hidden')",
    "const n = 'hidden'; return __getToolInterface(n)",
    "{\"tool\": \"open.hidden\", \"arguments\": {}}",
    "{\"tool\": \"open.hiden\", \"arguments\": {}}",
    "{\"tool\": \"hidden\"}",
    "return await fetch('x')",
    "open-x.hidden({})",
];

pub(crate) fn a_tool_that_is_denied_looks_as_if_it_were_not_there() {
    let read = json!({ "name": "read", "reply": "open" });
    let others = [json!({ "name": "hidden", "reply": "secret" }), json!({ "name": "fetch_hidden", "reply": 1 })];
    let without = chain(&json!({ "backends": { "open": { "tools": [read] } } }));
    let denied = chain(&json!({ "backends": { "open": { "tools": [read, others[0], others[1]] } } }));
    let caller = CallerScope { tools: Access::only(["open.r*", "other.hidden"]), ..CallerScope::default() };
    for text in TOOL_TEXTS {
        for fast_paths in [FastPaths::Allowed, FastPaths::Off] {
            let request = RunRequest { fast_paths, ..asking(text) };
            let absent = shown(&run(&without, request.clone()));
            let refused = shown(&run(&denied, RunRequest { caller: caller.clone(), ..request }));
            assert_eq!(absent, refused, "{text}");
        }
    }
}

/// Before the run, and by the call itself.
pub(crate) fn what_a_backend_has_is_listed_as_far_as_the_caller_may_use_it() {
    let tools = ["read", "hidden", "rename"].map(|name| json!({ "name": name, "reply": 1 }));
    let chain = chain(&json!({ "backends": { "open": { "tools": tools } } }));
    let caller = CallerScope { tools: Access::only(["open.r*"]), ..CallerScope::default() };
    for (code, expected) in [
        ("return await open.xyzzy({})", "Backend `open` has no tool `xyzzy`"),
        (
            "const name = 'xyz' + 'zy'; return await open[name]({})",
            "open has no tool named xyzzy. It has read, rename.",
        ),
    ] {
        let text = shown(&run(&chain, RunRequest { caller: caller.clone(), ..asking(code) }));
        assert!(text.contains(expected) && text.contains("It has read, rename."), "{code}: {text}");
        assert!(!text.contains("hidden"), "{code}: {text}");
    }
}

/// On every route, and each caller for itself.
pub(crate) fn a_caller_makes_as_many_calls_as_its_rate_says() {
    let chain = chain(&json!({ "backends": { "open": { "tools": [{ "name": "read", "reply": 1 }] } } }));
    let with_rate =
        |name: &str| CallerScope { name: name.to_owned(), rate: CallRate::per_minute(3), ..CallerScope::default() };
    let try_it = |name: &str, code: &str| {
        let report = run(&chain, RunRequest { caller: with_rate(name), ..asking(code) }).report;
        let limited = report.calls.iter().filter(|call| call.error_code == Some(CallErrorCode::RateLimited)).count();
        (report.calls.len(), limited)
    };
    assert_eq!(try_it("a", "return open.read({})"), (1, 0));
    assert_eq!(try_it("a", "return Promise.allSettled([open.read(), open.read(), open.read()])"), (3, 1));
    assert_eq!(try_it("a", "{\"tool\": \"open.read\"}"), (1, 1));
    assert_eq!(try_it("b", "return open.read({})"), (1, 0));
    let text = shown(&run(&chain, RunRequest { caller: with_rate("a"), ..asking("return open.read({})") }));
    assert!(text.contains("this caller may make 3 tool calls a minute; try again in "), "{text}");
    assert!(text.contains("safe to retry true"), "{text}");
}
