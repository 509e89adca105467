//! Durable runs of the real `toolgate serve`, which is killed with SIGKILL while they go on.

#![allow(clippy::print_stdout, reason = "the numbers of a long run are worth reading")]

mod commands;
mod effects;
mod five_approvals;
mod kills;
#[path = "../../../journal/tests/support/postgres.rs"]
#[allow(dead_code, reason = "the tests of the journal use the rest")]
mod postgres;
#[path = "../../../journal/tests/support/programs.rs"]
mod programs;
mod readme;
mod replicas;
mod secrets;
mod server;
mod unsure;

use std::path::{Path, PathBuf};

use effects::Effects;
use serde_json::{Value, json};
use server::Server;

/// The configuration of a server with these functions, in this folder; `store` is PostgreSQL's, or a file when absent.
fn configuration(folder: &Path, effects: &Effects, store: Option<&str>) -> PathBuf {
    configuration_with(folder, effects, store, json!({}))
}

/// The same with more settings of durable runs, and with other settings.
fn configuration_with(folder: &Path, effects: &Effects, store: Option<&str>, more: Value) -> PathBuf {
    let file = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let mut config = json!({
        "mcpServers": {},
        "toolgate": {
            "functions": effects.functions(),
            "http": { "auth": "none" },
            "cache": { "enabled": false },
            "runs": {
                "store": store.map_or_else(|| file("runs.db"), str::to_owned),
                "key_file": file("runs.key"),
                "lease": "400ms",
            },
        },
    });
    for (name, value) in more.as_object().expect("settings") {
        match name.strip_prefix("runs.") {
            Some(name) => config["toolgate"]["runs"][name] = value.clone(),
            None => config["toolgate"][name] = value.clone(),
        }
    }
    let path = folder.join("toolgate.json");
    std::fs::write(&path, config.to_string()).expect("written");
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_server_is_killed_goes_on_and_makes_each_effect_once() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    let server = Server::start(&config).await;
    let code = "const out = []; for (let k = 0; k < 8; k++) { out.push((await save({ run: 'a', k })).saved); \
                await sleep(40); } console.log('end'); return out";
    let run = server.begin(code, "one").await.expect("begun");
    effects.reached(3).await;
    server.kill().await;
    let server = Server::start(&config).await;
    assert_eq!(server.begin(code, "one").await.as_deref(), Some(run.as_str()), "the same key is the same run");
    let report = server.report(&run).await.expect("a report");
    let counts = effects.of("a");
    if report["ok"] == true {
        assert_eq!(report["value"], json!([0, 1, 2, 3, 4, 5, 6, 7]), "{report}");
        assert_eq!(report["logs"]["stdout"], json!(["end"]));
        assert_eq!(counts.len(), 8, "{counts:?}");
    } else {
        assert_unknown(&report);
    }
    assert!(counts.values().all(|times| *times == 1), "{counts:?}");
    assert_eq!(report["executionId"], json!(run));
    let keys = effects.keys();
    let distinct: std::collections::BTreeSet<_> = keys.iter().flatten().filter(|key| key.len() == 36).collect();
    assert_eq!(distinct.len(), keys.len(), "each call has a key of its own: {keys:?}");
}

/// The URL of a new database, for the configuration.
async fn database_url(database: &mut postgres::Server) -> String {
    let address = database.database().await;
    let part = |name: &str| address.split(name).nth(1).and_then(|rest| rest.split(' ').next()).expect("a part");
    let host = part("host=").replace('/', "%2F");
    format!("postgres://toolgate@{host}/{}", part("dbname="))
}

/// Checks that a run ended with an unknown effect: its error says so, and it is not safe to repeat.
fn assert_unknown(report: &Value) {
    let error = report["error"].as_str().unwrap_or_default();
    assert!(error.contains("whose effect is unknown") && report["safe_to_retry"] == false, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_end_gives_its_runs_away_between_two_effects() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    let server = Server::start(&config).await;
    let code = "const out = []; for (let k = 0; k < 30; k++) out.push((await save({ run: 'a', k })).saved); return out";
    let run = server.begin(code, "one").await.expect("begun");
    effects.reached(3).await;
    server.end().await;
    let before = effects.total();
    let server = Server::start(&config).await;
    let report = server.report(&run).await.expect("a report");
    assert_eq!(report["ok"], true, "{before} effects before the end: {report}");
    let counts = effects.of("a");
    assert_eq!((counts.len(), counts.values().max()), (30, Some(&1)), "{counts:?}");
}
