//! Tools with declared results, and runners over them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolgate_bridge::Bridge;
use toolgate_bridge::scripted::ToolScript;
use toolgate_catalog::CatalogHandle;
use toolgate_engine::{Engine, FOLDER_JAIL, IsolationMode};
use toolgate_functions::Registry;
use toolgate_plan::Preflight;
use toolgate_run::{FixedEnvironment, ProgramTypes, RunReport, RunRequest, Runner};
use toolgate_typecheck::{JailCommand, TypeChecker, find};
use toolgate_wire::Profile;

/// How long a test waits for a check: machines that run tests are slow.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let _inside = RUNTIME.enter();
    Engine::builder().isolation(IsolationMode::Thread).build().unwrap()
});

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// The compiler that the variable names, that is on the search path, or that `./check` installed.
pub(crate) fn compiler() -> find::Compiler {
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.check/typescript/node_modules/typescript/bin/tsc");
    find::find(None)
        .or_else(|_| find::find(Some(&installed)))
        .expect("a TypeScript 7: `./check` installs one, or name yours in TOOLGATE_TSC")
}

/// A checker in a jail.
pub(crate) fn checker(budget: Duration) -> TypeChecker {
    let (program, without) = ENGINE.jail().expect("a jail");
    let jail = JailCommand { program: program.to_owned(), name: FOLDER_JAIL, without: without.names() };
    TypeChecker::new(compiler(), jail, budget).unwrap()
}

/// The checkers of this process that run, by their process ids.
pub(crate) fn checkers() -> BTreeSet<u32> {
    let own = std::process::id().to_string();
    let is_ours = |status: &str| {
        let is_child = status.lines().any(|line| line.split_whitespace().eq(["PPid:", own.as_str()]));
        is_child && status.contains("Name:\ttsc") && !status.contains("State:\tZ")
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| std::fs::read_to_string(format!("/proc/{id}/status")).is_ok_and(|status| is_ours(&status)))
        .collect()
}

/// A runner over scripted tools, with a checker or without.
pub(crate) fn runner(tools: &Value, types: Option<Arc<ProgramTypes>>) -> Runner {
    runner_with(tools, types, Registry::new())
}

/// The same with host functions.
pub(crate) fn runner_with(tools: &Value, types: Option<Arc<ProgramTypes>>, functions: Registry) -> Runner {
    let tools = ToolScript::parse(&tools.to_string()).unwrap();
    let bridge = Bridge::new(CatalogHandle::new(tools.catalog()));
    for (backend, provider) in tools.providers() {
        bridge.provide(backend, provider);
    }
    let environment = FixedEnvironment { types, functions, ..FixedEnvironment::default() };
    Runner::new(ENGINE.clone(), Arc::new(bridge), Arc::new(environment))
}

/// One process for all tests that do not attack it.
pub(crate) static TYPES: LazyLock<Arc<ProgramTypes>> =
    LazyLock::new(|| Arc::new(ProgramTypes::new(checker(WAIT_TIMEOUT))));

pub(crate) static TYPED: LazyLock<Runner> = LazyLock::new(|| runner(&tools(), Some(Arc::clone(&TYPES))));
pub(crate) static UNTYPED: LazyLock<Runner> = LazyLock::new(|| runner(&tools(), None));

pub(crate) fn asking(code: &str) -> RunRequest {
    RunRequest::new(Profile::Chain, code.to_owned())
}

pub(crate) fn run(runner: &Runner, code: &str) -> RunReport {
    block_on(runner.run(asking(code)))
}

/// What is found without running a program; `None` if it is no program.
pub(crate) fn check(runner: &Runner, code: &str) -> Option<Preflight> {
    block_on(runner.check_types(&asking(code), WAIT_TIMEOUT)).ok().map(|check| check.preflight)
}

/// A tracker, a store of files, a tree and what is hard to declare; `loose` declares nothing.
pub(crate) fn tools() -> Value {
    let text = json!({ "type": "string" });
    let number = json!({ "type": "number" });
    let user = json!({ "type": "object", "required": ["login"], "properties": {
        "login": text, "id": { "type": "integer" }, "email": { "type": ["string", "null"] } } });
    let issue = json!({ "type": "object", "required": ["number", "title"], "properties": {
        "number": { "type": "integer" }, "title": text, "state": { "enum": ["open", "closed"] }, "author": user,
        "labels": { "type": "array", "items": text }, "comments": number, "created_at": text,
        "milestone": { "anyOf": [{ "type": "null" }, { "type": "object", "properties": { "title": text, "due": text } }] },
        "fields": { "type": "object", "additionalProperties": text } } });
    let an_issue = |number: u32| {
        json!({ "number": number, "title": format!("Issue {number}"), "state": "open",
            "author": { "login": "ann", "id": 7, "email": null }, "labels": ["bug"], "comments": number * 2,
            "created_at": "2026-01-02T03:04:05Z", "milestone": { "title": "v1", "due": "2026-02-01" },
            "fields": { "area": "core" } })
    };
    json!({ "backends": {
        "tracker": { "tools": [
            { "name": "list_issues", "annotations": { "readOnlyHint": true },
              "inputSchema": { "type": "object", "additionalProperties": false, "properties": {
                  "state": { "enum": ["open", "closed"] }, "limit": { "type": "integer" }, "labels": { "type": "array", "items": text } } },
              "outputSchema": { "type": "object", "properties": {
                  "issues": { "type": "array", "items": issue }, "total": number, "next": { "type": ["string", "null"] } } },
              "reply": { "issues": [an_issue(1), an_issue(2), an_issue(3)], "total": 3, "next": null } },
            { "name": "get_issue",
              "inputSchema": { "type": "object", "required": ["number"], "properties": { "number": { "type": "integer" } } },
              "outputSchema": issue, "reply": an_issue(4) },
            { "name": "create_issue",
              "inputSchema": { "type": "object", "required": ["title"], "additionalProperties": false, "properties": {
                  "title": text, "body": text, "labels": { "type": "array", "items": text }, "urgent": { "type": "boolean" },
                  "options": { "type": "object", "required": ["owner"], "properties": { "owner": text, "weight": number } } } },
              "outputSchema": issue, "reply": an_issue(5) },
            { "name": "get_user",
              "inputSchema": { "type": "object", "required": ["login"], "properties": { "login": text } },
              "outputSchema": user, "reply": { "login": "ann", "id": 7, "email": "ann@example.com" } },
        ] },
        "my-files": { "tools": [
            { "name": "list", "outputSchema": { "type": "array", "items": { "type": "object", "properties": {
                  "path": text, "size": number, "folder": { "type": "boolean" } } } },
              "reply": [{ "path": "a.txt", "size": 10, "folder": false }, { "path": "b.txt", "size": 20, "folder": false }] },
            { "name": "read",
              "inputSchema": { "type": "object", "required": ["path"], "properties": { "path": text, "lines": number } },
              "outputSchema": { "type": "object", "properties": { "path": text, "text": text, "lines": number } },
              "reply": { "path": "{{path}}", "text": "one\ntwo", "lines": 2 } },
            { "name": "write",
              "inputSchema": { "type": "object", "required": ["path", "text"], "properties": { "path": text, "text": text } },
              "outputSchema": { "type": "object", "properties": { "path": text, "bytes": number } },
              "reply": { "path": "{{path}}", "bytes": 7 } },
        ] },
        "nested": { "tools": [
            { "name": "tree",
              "outputSchema": { "type": "object", "properties": {
                  "root": { "$ref": "#/$defs/node" },
                  "by_id": { "type": "object", "additionalProperties": { "type": "object", "properties": { "title": text } } } },
                "$defs": { "node": { "type": "object", "required": ["name"], "properties": {
                  "name": text, "kids": { "type": "array", "items": { "$ref": "#/$defs/node" } } } } } },
              "reply": { "root": { "name": "a", "kids": [{ "name": "b", "kids": [{ "name": "c" }] }] }, "by_id": { "x": { "title": "t" } } } },
        ] },
        "odd": { "tools": [
            { "name": "either",
              "outputSchema": { "type": "object", "properties": {
                  "value": { "anyOf": [text, number] },
                  "rows": { "oneOf": [
                      { "type": "array", "items": { "type": "object", "properties": { "a": text } } },
                      { "type": "object", "properties": { "b": text } } ] } } },
              "reply": { "value": "a,b", "rows": [{ "a": "x" }] } },
            { "name": "brief", "outputSchema": { "type": "object", "required": ["id"], "properties": { "id": number } },
              "reply": { "id": 1 } },
            { "name": "full",
              "outputSchema": { "type": "object", "required": ["id"], "properties": { "id": number, "body": text } },
              "reply": { "id": 1, "body": "x" } },
            { "name": "conditional",
              "outputSchema": { "type": "object", "properties": { "id": number },
                  "if": { "required": ["id"] }, "then": { "properties": { "extra": text } } },
              "reply": { "id": 1, "extra": "x" } },
        ] },
        "loose": { "tools": [
            { "name": "get", "reply": { "anything": { "goes": [1, 2, 3] }, "name": "x" } },
            { "name": "put", "inputSchema": { "type": "object" }, "reply": { "ok": true } },
        ] },
    } })
}
