//! Random programs on a server that is killed again and again: nothing is lost, nothing is doubled, and what is unsure
//! is labelled.

use std::time::Duration;

use serde_json::Value;

use super::effects::Effects;
use super::programs::{Dice, program};
use super::server::Server;
use super::{assert_unknown, configuration, database_url, postgres};

/// Programs that run at the same time.
const BATCH: u64 = 20;
/// Kills of the server in one batch.
const KILLS: u64 = 4;

/// How many programs run: 300 by default, on each store a part of them.
fn programs() -> u64 {
    std::env::var("TOOLGATE_KILL_PROGRAMS").ok().and_then(|number| number.parse().ok()).unwrap_or(300)
}

/// The program of a seed, with effects that name it.
fn code_of(seed: u64) -> String {
    let code = program(&mut Dice(seed));
    let own = |name: &str| format!("{name}({{ run: 'run{seed}', k");
    code.replace("db.save({ k", &own("save"))
        .replace("db.broken({ k", &own("broken"))
        .replace("db.find({ n })", "find({ n }).then(found => ({ found: { n } }))")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_effect_of_a_killed_server_is_lost_or_doubled_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    check(folder.path(), None, 0..programs() * 2 / 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_effect_of_a_killed_server_is_lost_or_doubled_in_postgres() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut database = postgres::Server::start().await;
    let url = database_url(&mut database).await;
    check(folder.path(), Some(&url), 10_000..10_000 + programs() / 3).await;
}

async fn check(folder: &std::path::Path, store: Option<&str>, seeds: std::ops::Range<u64>) {
    let effects = Effects::start().await;
    let config = configuration(folder, &effects, store);
    let (mut killed, mut unknown, mut ended) = (0, 0, 0);
    let seeds: Vec<u64> = seeds.collect();
    for batch in seeds.chunks(BATCH as usize) {
        let mut dice = Dice(batch[0] ^ 0xdead);
        let mut server = Server::start(&config).await;
        for kill in 0..KILLS {
            let before = effects.total();
            // Who repeats a request with its key gets the run that there is.
            for seed in batch {
                server.begin(&code_of(*seed), &format!("key{seed}")).await.expect("begun");
            }
            let more = dice.below(12);
            let _ = tokio::time::timeout(Duration::from_secs(1 + kill / 2), effects.reached(before + more)).await;
            server.kill().await;
            killed += 1;
            server = Server::start(&config).await;
        }
        for seed in batch {
            let run = server.begin(&code_of(*seed), &format!("key{seed}")).await.expect("begun");
            let report = server.report(&run).await.expect("a report");
            unknown += u64::from(verify(*seed, &report, &effects));
            ended += 1;
        }
        server.kill().await;
    }
    println!("{ended} runs, {killed} kills, {unknown} ended with a call that is labelled unknown");
    assert_eq!(ended, seeds.len());
    assert!(unknown * 2 < ended as u64, "most runs go on: {unknown} of {ended} did not");
}

/// Whether the run ended because a call is unknown; panics where an effect was lost or doubled.
fn verify(seed: u64, report: &Value, effects: &Effects) -> bool {
    let counts = effects.of(&format!("run{seed}"));
    let code = code_of(seed);
    assert!(counts.values().all(|times| *times == 1), "made twice in run {seed}: {counts:?}\n{code}");
    if report["ok"] != true {
        assert_unknown(report);
        return true;
    }
    let mut done: Vec<String> = report["value"].as_array().expect("numbers").iter().map(Value::to_string).collect();
    done.sort();
    let made: Vec<&String> = counts.keys().filter(|key| !key.contains("broken")).collect();
    assert_eq!(done.iter().collect::<Vec<_>>(), made, "lost in run {seed}\n{code}");
    false
}
