//! Five calls that wait together, decided by two people at two processes, one of which is killed in between.

use serde_json::{Value, json};

use super::configuration_with;
use super::effects::Effects;
use super::server::Server;

/// SHA-256 of `agent-key`, `ann-key` and `bob-key`.
const KEYS: [(&str, &str); 3] = [
    ("agent", "112a8d31e2b0fb3f207031fef32f7a7245f787b4d4e85b45f65aa5b83435368c"),
    ("ann", "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c"),
    ("bob", "9b94dc1a51a38769f135edf04033ad7f2f487b6c25929be7a861cfc1ab10cf98"),
];

fn settings() -> Value {
    let keys = KEYS.map(|(name, hash)| json!({ "name": name, "hash": format!("sha256:{hash}") }));
    let ask = json!({ "tool": "save", "do": "ask", "approvers": ["ann", "bob"] });
    // More specific than the other rule. No decision is made about its call in this test.
    let soon =
        json!({ "tool": "save", "when": "args[0].k == 4", "do": "ask", "approvers": ["ann", "bob"], "expiry": "8s" });
    json!({ "http": { "keys": keys }, "policy": [ask, soon] })
}

struct Replica(Server);

impl Replica {
    async fn ask(&self, who: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
        let headers = format!("Authorization: Bearer {who}-key\r\n");
        let answer = self.0.ask(method, path, &headers, body).await.expect("an answer");
        assert!(answer.status < 300, "{who} {method} {path}: {answer:?}");
        answer.json
    }

    /// The run as the agent sees it, once it is in this state.
    async fn until(&self, run: &str, status: &str) -> Value {
        loop {
            let view = self.ask("agent", "GET", &format!("/v1/runs/{run}?wait=5"), None).await;
            if view["status"] == status {
                return view;
            }
        }
    }

    /// Decides the call about `k`.
    async fn decide(&self, who: &str, run: &str, pending: &Value, k: u64, decision: Value) {
        let calls = pending.as_array().expect("calls");
        let call = calls.iter().find(|call| call["arguments"][0]["k"] == k).expect("it waits");
        let mut decision = decision;
        decision["callId"] = call["callId"].clone();
        let body = json!({ "decisions": [decision] });
        self.ask(who, "POST", &format!("/v1/runs/{run}/decisions"), Some(&body)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_calls_are_decided_by_two_people_at_two_processes() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration_with(folder.path(), &effects, None, settings());
    let (first, second) = (Replica(Server::start(&config).await), Replica(Server::start(&config).await));
    let code = "const all = await Promise.allSettled([0, 1, 2, 3, 4].map(k => save({ run: 'five', k })));
        return all.map(one => one.reason?.code ?? one.value.saved)";
    let begun = first.ask("agent", "POST", "/v1/runs", Some(&json!({ "code": code }))).await;
    let run = begun["runId"].as_str().expect("an id").to_owned();
    let view = first.until(&run, "paused").await;
    let pending = &view["pending"];
    assert_eq!(pending.as_array().map(Vec::len), Some(5), "one pause for all: {view}");
    assert_eq!(effects.total(), 0);

    first.decide("ann", &run, pending, 0, json!({ "decision": "approve" })).await;
    effects.reached(1).await;
    let edited = json!([{ "run": "five", "k": 20 }]);
    second.decide("bob", &run, pending, 2, json!({ "decision": "edit", "arguments": edited })).await;
    effects.reached(2).await;
    // Between two effects: what was sent is answered.
    second.until(&run, "paused").await;
    first.0.kill().await;

    let first = Replica(Server::start(&config).await);
    second.decide("bob", &run, pending, 3, json!({ "decision": "deny", "reason": "not this one" })).await;
    first.decide("ann", &run, pending, 1, json!({ "decision": "approve" })).await;
    let done = first.until(&run, "done").await;
    assert_eq!(done["report"]["value"], json!([0, 1, 20, "DENIED", "EXPIRED"]), "{done}");
    let counts = effects.of("five");
    assert_eq!(counts.keys().cloned().collect::<Vec<_>>(), ["0", "1", "20"], "{counts:?}");
    assert!(counts.values().all(|times| *times == 1), "one effect each: {counts:?}");
    assert_eq!(second.until(&run, "done").await["report"]["value"], done["report"]["value"], "one result");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_not_asked_to_be_durable_waits_for_a_person_too() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration_with(folder.path(), &effects, None, settings());
    let server = Replica(Server::start(&config).await);
    let code = "try { return (await save({ run: 'one', k: 0 })).saved } catch (error) { return error.code }";
    let waits = server.ask("agent", "POST", "/v1/run", Some(&json!({ "code": code }))).await;
    let run = waits["paused"]["runId"].as_str().unwrap_or_else(|| panic!("{waits}")).to_owned();
    assert_eq!((waits["paused"]["pending"].as_array().map(Vec::len), effects.total()), (Some(1), 0), "{waits}");
    server.decide("ann", &run, &waits["paused"]["pending"], 0, json!({ "decision": "approve" })).await;
    assert_eq!(server.until(&run, "done").await["report"]["value"], 0);
    assert_eq!(effects.total(), 1);

    let refused = server.ask("agent", "POST", "/v1/run", Some(&json!({ "code": code, "durable": false }))).await;
    assert_eq!(refused["value"], "DENIED", "{refused}");
    let plain = server.ask("agent", "POST", "/v1/run", Some(&json!({ "code": "return 1" }))).await;
    assert_eq!((&plain["value"], plain.get("paused")), (&json!(1), None), "a program that names nothing of the rules");
}
