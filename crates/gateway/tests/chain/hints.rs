//! The table "Errors that teach", row by row, from `specs/hints`, on every engine.
//!
//! A file has `tools` (as `--tools` reads them), `states` of backends that are not up, and `rows`. A row has `code` and
//! what must be found: the returned `value`, the failure's `error` code, parts of its `hint`, of the `text` that an agent gets, of `warnings`,
//! and the tools `called`.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use toolgate_catalog::BackendState;
use toolgate_run::{Runner, explain};

use crate::runner::{Case, cases};
use crate::support::{asking, chain_on, engines, run, specs};

pub(crate) fn cases() -> Vec<Case> {
    cases![hints::every_row_of_the_table_holds_on_every_engine, hints::the_error_text_says_everything]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    mistake: String,
    tools: Value,
    #[serde(default)]
    states: BTreeMap<String, State>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Starting,
    Cached,
    Failed(String),
    Disabled,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    code: String,
    #[serde(default)]
    value: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    hint: Vec<String>,
    /// Whether a hint would be wrong.
    #[serde(default)]
    no_hint: bool,
    #[serde(default)]
    text: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    called: Vec<String>,
}

pub(crate) fn every_row_of_the_table_holds_on_every_engine() {
    let mut wrong = Vec::new();
    for (name, spec) in specs("hints") {
        let spec: Spec = serde_json::from_value(spec).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (engine, running) in engines() {
            let chain = chain_on(running, &spec.tools);
            unsettle(&chain, &spec.states);
            let place = |row: &Row| format!("{name} ({}) on {engine}:\n{}", spec.mistake, row.code);
            wrong.extend(spec.rows.iter().filter_map(|row| Some(format!("{}\n{}", place(row), row.fault(&chain)?))));
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Takes backends down, as far as their state says.
fn unsettle(chain: &Runner, states: &BTreeMap<String, State>) {
    for (backend, state) in states {
        let state = match state {
            State::Starting => BackendState::Starting,
            State::Cached => BackendState::Cached,
            State::Failed(reason) => BackendState::Failed { reason: reason.clone() },
            State::Disabled => BackendState::Disabled,
        };
        chain.bridge().withdraw(backend);
        chain.bridge().catalog_handle().update(|catalog| catalog.with_state(backend, state));
    }
}

impl Row {
    /// What does not hold.
    fn fault(&self, chain: &Runner) -> Option<String> {
        let report = run(chain, asking(self.code.as_str())).report;
        let text = explain(&report, &self.code);
        let error = report.failure().map(|it| it.code.name());
        let hint = report.failure().and_then(|it| it.hint.as_deref()).unwrap_or_default();
        let called: Vec<String> = report.calls.iter().map(|call| call.name()).collect();
        let warnings = report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let mut parts = [(hint, &self.hint), (text.as_str(), &self.text), (&warnings, &self.warnings)].into_iter();
        let value = report.value().ok().and_then(|value| serde_json::from_str::<Value>(value.get()).ok());
        let holds = error == self.error.as_deref()
            && (self.value.is_none() || value == self.value)
            && called == self.called
            && (!self.no_hint || hint.is_empty())
            && parts.all(|(found, parts)| parts.iter().all(|part| found.contains(part.as_str())));
        (!holds).then(|| {
            format!("gives {value:?}, {error:?}, hint {hint:?}, calls {called:?}, warnings {warnings:?}\n{text}")
        })
    }
}

pub(crate) fn the_error_text_says_everything() {
    let tools = serde_json::json!({ "backends": { "exa": { "tools": [
        { "name": "search", "reply": [1] }, { "name": "count", "reply": 1, "annotations": { "readOnlyHint": true } }] } } });
    let code = "const found = await exa.search({ query: 'tea' });\nconsole.log('found', found.length);\nconst n = exa.count({});\nreturn n.value.size;";
    for (engine, running) in engines() {
        let report = run(&chain_on(running, &tools), asking(code)).report;
        // The words of a TypeError, and which part of the expression it points at, are the interpreter's own.
        let (message, column) = match engine {
            "v8" => ("Cannot read properties of undefined (reading 'size')", 16),
            _ => ("cannot read property 'size' of undefined", 8),
        };
        let head = format!("RUNTIME: TypeError: {message}\nat line 4, column {column}:\n4 | return n.value.size;\n");
        let caret = format!("  | {:>column$}\n", "^");
        assert_eq!(explain(&report, code), format!("{head}{caret}{REST_OF_ERROR_TEXT}"), "{engine}");
    }
}

const REST_OF_ERROR_TEXT: &str = "\
hint: `n` is a promise, so it has no `value`. Write `await` before the call.
console:
  found 1
already called:
  exa.search (applied)
  exa.count (applied)
safe to retry: no, something was or may have been changed
warning: 4:10: `n` is a promise, so it has no `value` (Write `await` before the call.)
";
