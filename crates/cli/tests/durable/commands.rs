//! `toolgate runs`, `pending`, `approve` and `deny` over a store with a run that has ended and one that waits.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_journal::durable::{Began, Journal};
use toolgate_journal::recording::RunFacts;
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::sqlite::SqliteStore;
use toolgate_wire::{CallId, FromWorker, Profile, Target};

use super::configuration;
use super::effects::Effects;
use super::server::Server;

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn toolgate(config: &Path, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_toolgate")).args(args).arg("--config").arg(config).output();
    let output = output.expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub(crate) fn json_of(config: &Path, args: &[&str]) -> Value {
    let ran = toolgate(config, &[args, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {}", ran.stdout))
}

/// A run `aaaa…` that waits for a decision about its call 1.
async fn paused_run(folder: &Path, tool: &str) {
    paused_run_with(folder, &[question(1, tool, u64::MAX)]).await;
}

fn question(call: u32, tool: &str, expires_at: u64) -> Value {
    json!({
        "callId": call, "backend": "bank", "tool": tool, "arguments": {"amount": 12}, "reason": "more than 10",
        "askedAt": 0, "expiresAt": expires_at,
    })
}

/// The same with these questions.
async fn paused_run_with(folder: &Path, questions: &[Value]) {
    let store = SqliteStore::open(&folder.join("runs.db")).expect("a store");
    let sealer = Sealer::from_file(&folder.join("runs.key")).expect("a key");
    let journal = Journal::new(Arc::new(store), sealer, "test".into(), Duration::from_secs(60));
    let facts = RunFacts {
        run: "a".repeat(32),
        profile: Profile::Chain,
        code: "return await save({})".into(),
        caller: String::new(),
        request: Some(json!({ "wall_ms": 1000 }).to_string()),
    };
    let Ok(Began::New(run)) = journal.begin(facts, None).await else { panic!("it is new") };
    let call = FromWorker::Call { id: CallId(1), target: Target::Function("save".into()), args: b"[{}]".to_vec() };
    toolgate_engine::transcript::Recorder::said(&*run, &call, false);
    let number = |question: &Value| question["callId"].as_u64().and_then(|call| u32::try_from(call).ok());
    let kept = questions.iter().map(|it| (CallId(number(it).expect("a number")), it.to_string()));
    run.pause(&kept.collect::<Vec<_>>(), None).await.expect("paused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_listed_shown_exported_and_forgotten() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    assert_eq!(json_of(&config, &["runs", "list"]), json!([]));
    let server = Server::start(&config).await;
    let code =
        "console.log('<b>token</b>'); return { saved: await save({ run: 'r', k: 1, password: 'hunter2hunter2' }) }";
    let run = server.begin(code, "one").await.expect("begun");
    let report = server.report(&run).await.expect("a report");
    let listed = json_of(&config, &["runs", "list", "--status", "done"]);
    assert_eq!((&listed[0]["runId"], &listed[0]["status"]), (&json!(run), &json!("done")), "{listed}");
    let shown = json_of(&config, &["runs", "show", &run[..12]]);
    assert_eq!(shown["report"], report, "by the beginning of its id");
    let events = toolgate(&config, &["runs", "events", &run]);
    assert!(
        events.stdout.contains(r#""event":"log""#) && events.stdout.contains(r#""event":"answered""#),
        "{}",
        events.stdout
    );

    let file = folder.path().join("run.jsonl");
    let exported = toolgate(&config, &["runs", "export", &run, "-o", file.to_str().expect("UTF-8")]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    let text = std::fs::read_to_string(&file).expect("a cassette");
    assert!(!text.contains("hunter2") && text.lines().count() > 4, "secrets are replaced: {text}");
    let replayed =
        Command::new(env!("CARGO_BIN_EXE_toolgate")).args(["replay", "--json"]).arg(&file).output().expect("replayed");
    let replayed: Value = serde_json::from_slice(&replayed.stdout).expect("a report");
    assert_eq!(replayed["value"], report["value"], "without the server");
    let html = toolgate(&config, &["runs", "export", &run, "--html"]);
    assert!(html.stdout.starts_with("<!doctype html>") && html.stdout.contains("&lt;b&gt;token"), "{}", html.stdout);
    assert!(!html.stdout.contains("hunter2"));

    assert_eq!(json_of(&config, &["runs", "prune", "--older-than", "1h"]), json!({ "forgotten": 0 }));
    assert_eq!(json_of(&config, &["runs", "prune", "--max-size", "0"]), json!({ "forgotten": 1 }));
    assert_eq!(json_of(&config, &["runs", "list"]), json!([]));
    let none = toolgate(&config, &["runs", "show", &run]);
    assert_eq!((none.code, none.stderr.contains("there is no run")), (Some(2), true), "{}", none.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_decided_at_the_command_line() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    paused_run(folder.path(), "pay\u{1b}[2J").await;
    let waiting = json_of(&config, &["pending"]);
    assert_eq!((&waiting[0]["callId"], &waiting[0]["arguments"]), (&json!(1), &json!({"amount": 12})), "{waiting}");
    let shown = toolgate(&config, &["pending", "aaaa"]);
    assert!(shown.stdout.contains("more than 10") && !shown.stdout.contains('\u{1b}'), "{:?}", shown.stdout);
    for wrong in
        [&["approve", "aaaa", "7"][..], &["approve", "bbbb", "1"], &["approve", "aaaa", "1", "--arguments", "{"]]
    {
        assert_eq!(toolgate(&config, wrong).code, Some(2), "{wrong:?}");
    }
    let edited = json_of(&config, &["approve", "aaaa", "1", "--arguments", r#"{"amount":5}"#]);
    assert_eq!(edited["decisions"][0]["decision"], json!("edit"), "{edited}");
    let late = toolgate(&config, &["deny", "aaaa", "1", "--reason", "too late"]);
    assert_eq!((late.code, late.stderr.contains("decided before: edit")), (Some(1), true), "{}", late.stderr);
    assert_eq!(json_of(&config, &["pending"]), json!([]));
    assert_eq!(json_of(&config, &["runs", "abort", "aaaa"])["status"], json!("paused"));
    // A service with the store ends it.
    let server = Server::start(&config).await;
    let report = server.report(&"a".repeat(32)).await.expect("a report");
    assert_eq!(report["code"], json!("ABORTED"), "{report}");
}

/// Also where the first of several calls could be decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_cannot_be_taken_decides_nothing() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    let schema =
        json!({ "type": "object", "properties": { "account": { "type": "string" } }, "required": ["account"] });
    let mut form = question(2, "pay", u64::MAX);
    form["about"] = json!({ "kind": "form", "message": "which account?", "schema": schema });
    paused_run_with(folder.path(), &[question(1, "pay", u64::MAX), form, question(3, "pay", 1)]).await;
    for (wrong, expected) in [
        (&["1", "2"][..], "nothing was decided"),
        (&["1", "3"], "the question about call 3 expired at"),
        (&["1", "--remember", "always", "--when", "counts.day < 5"], "remember: the condition cannot be used"),
        (&["1", "--remember", "always", "--when", "args.amount <"], "remember: the condition cannot be used"),
    ] {
        let ran = toolgate(&config, &[&["approve", "aaaa"], wrong].concat());
        assert_eq!((ran.code, ran.stderr.contains(expected)), (Some(2), true), "{wrong:?}: {}", ran.stderr);
    }
    let waiting = json_of(&config, &["pending"]);
    let waiting: Vec<&Value> = waiting.as_array().expect("a list").iter().map(|it| &it["callId"]).collect();
    assert_eq!(waiting, [1, 2], "what has expired does not wait");
}

/// The person can correct what does not fit: nothing was decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edited_arguments_are_checked_before_they_are_a_decision() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    let mut file: Value = serde_json::from_slice(&std::fs::read(&config).expect("read")).expect("JSON");
    file["mcpServers"] = json!({ "bank": { "command": "true" } });
    file["toolgate"]["cache"] = json!({ "dir": folder.path().join("cache") });
    std::fs::write(&config, file.to_string()).expect("written");
    let source = toolgate_config::text::Source::open(&config).expect("a configuration");
    let checked = toolgate_config::check(source, &toolgate_config::Env::of_process()).expect("checked");
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "number", "maximum": 9 } } });
    let pay = json!({ "name": "pay", "inputSchema": schema });
    toolgate_gateway::runtime::prefill_cache(&checked, "bank", vec![pay]).expect("cached");
    paused_run(folder.path(), "pay").await;
    for wrong in [r#"{"amount":"much"}"#, r#"{"amount":10}"#, "[]"] {
        let ran = toolgate(&config, &["approve", "aaaa", "1", "--arguments", wrong]);
        assert_eq!((ran.code, ran.stderr.contains("nothing was decided")), (Some(2), true), "{wrong}: {}", ran.stderr);
    }
    let edited = json_of(&config, &["approve", "aaaa", "1", "--arguments", r#"{"amount":5}"#]);
    assert_eq!(edited["decisions"][0]["decision"], json!("edit"), "{edited}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_remembered_at_the_command_line() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    paused_run(folder.path(), "pay").await;
    let toolgate = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        let command =
            command.args(args).arg("--config").arg(&config).env("XDG_STATE_HOME", folder.path().join("state"));
        let output = command.env("HOME", folder.path()).output().expect("the binary runs");
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default())
    };
    let condition = "args.amount < 20";
    assert_eq!(toolgate(&["approve", "aaaa", "1", "--when", condition]).0, Some(2), "once has no condition");
    let (code, decided) = toolgate(&["approve", "aaaa", "1", "--remember", "always", "--when", condition, "--json"]);
    assert_eq!((code, &decided["decisions"][0]["remember"]), (Some(0), &json!({ "always": condition })), "{decided}");
    let (_, listed) = toolgate(&["policy", "list", "--json"]);
    let rule = &listed["remembered"][0];
    assert_eq!((&rule["rule"]["tool"], &rule["rule"]["when"]), (&json!("bank.pay"), &json!(condition)), "{listed}");
    assert_eq!(rule["caller"], "local", "{listed}");
    // The same text in another file is another configuration, where nothing was approved.
    let other = folder.path().join("other.json");
    std::fs::copy(&config, &other).expect("copied");
    let listed = json_of(&other, &["policy", "list"]);
    assert_eq!(listed["remembered"], json!([]), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_keeps_the_first_answers_and_goes_on_live() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    let server = Server::start(&config).await;
    let code = "const out = []; for (let k = 0; k < 4; k++) { await find({ n: k }); \
                out.push((await save({ run: 'f', k })).saved); } return [out, Math.random()]";
    let run = server.begin(code, "one").await.expect("begun");
    let report = server.report(&run).await.expect("a report");
    assert_eq!((report["ok"].clone(), effects.total()), (json!(true), 4), "{report}");
    server.end().await;

    // Five answers: find, save, find, save, find.
    let forked = json_of(&config, &["fork", &run, "--from", "5"]);
    assert_eq!(forked["value"], report["value"], "the same answers, the same random numbers: {forked}");
    assert_eq!(forked["calls"].as_array().map(Vec::len), Some(8), "kept calls are in its report: {forked}");
    assert_ne!(forked["executionId"], json!(run));
    let counts: Vec<u32> = effects.of("f").into_values().collect();
    assert_eq!(counts, [1, 1, 2, 2], "what is kept is not made again, the rest is");
    let keys: std::collections::BTreeSet<_> = effects.keys().into_iter().collect();
    assert_eq!(keys.len(), 6, "the new run has idempotency keys of its own");
    assert_eq!(json_of(&config, &["runs", "list", "--status", "done"]).as_array().map(Vec::len), Some(2));

    let all = toolgate(&config, &["fork", &run[..12], "--from", "8"]);
    assert_eq!((all.code, effects.total()), (Some(0), 6), "nothing is left to be made: {}", all.stderr);
    let some = toolgate(&config, &["fork", &run, "--from", "7"]);
    assert!(some.stderr.contains("1 effect of the earlier run may be made again"), "{}", some.stderr);
    let many = toolgate(&config, &["fork", &run, "--from", "9"]);
    assert_eq!((many.code, many.stderr.contains("8 answered calls")), (Some(2), true), "{}", many.stderr);
}
