//! A tool that a caller may not use is to it as if it did not exist: invariant 8.

use serde_json::json;
use toolgate_gateway::run::{FastPaths, RunRequest};
use toolgate_wire::{Access, CallerScope};

use crate::runner::{Case, cases};
use crate::support::{asking, chain, run, shown};

pub(crate) fn cases() -> Vec<Case> {
    cases![access::what_is_denied_looks_as_if_it_were_not_there]
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
