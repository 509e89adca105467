//! Calls that were sent before a SIGKILL and never answered: a question for a person, never a silent repeat.

use serde_json::{Value, json};

use super::commands::{json_of, toolgate};
use super::effects::Effects;
use super::server::Server;
use super::{assert_unknown, configuration, configuration_with};

impl Server {
    /// The run once it waits for a person.
    async fn paused(&self, run: &str) -> Value {
        loop {
            let answer = self.ask("GET", &format!("/v1/runs/{run}?wait=1"), "", None).await.expect("an answer");
            assert_ne!(answer.json["status"], "done", "{answer:?}");
            if answer.json["pending"].as_array().is_some_and(|pending| !pending.is_empty()) {
                return answer.json;
            }
        }
    }

    pub(crate) async fn decide(&self, run: &str, decision: Value) -> (u16, Value) {
        let body = json!({ "decisions": [decision] });
        let answer = self.ask("POST", &format!("/v1/runs/{run}/decisions"), "", Some(&body)).await.expect("an answer");
        (answer.status, answer.json)
    }
}

/// Saves, and makes a call that is not answered; `name` tells the effects of different runs apart.
fn code_of(name: &str) -> String {
    format!(
        "const first = (await save({{ run: '{name}', k: 0 }})).saved; \
         let second; try {{ second = (await hang({{ run: '{name}', k: 1 }})).saved; }} catch (error) {{ second = error.code; }} \
         return [first, second, (await save({{ run: '{name}', k: 2 }})).saved]"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_unknown_effect_is_a_question_for_a_person() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration_with(folder.path(), &effects, None, json!({ "runs.unknown_calls": "ask" }));
    let server = Server::start(&config).await;
    let names = ["approve", "deny", "answer", "stop", "cli"];
    let mut runs = Vec::new();
    for name in names {
        runs.push(server.begin(&code_of(name), name).await.expect("begun"));
    }
    effects.reached(10).await;
    server.kill().await;
    let server = Server::start(&config).await;
    for (name, run) in names.into_iter().zip(&runs) {
        let paused = server.paused(run).await;
        let question = &paused["pending"][0];
        assert_eq!((&paused["status"], &question["tool"]), (&json!("paused"), &json!("hang")), "{paused}");
        assert_eq!(question["arguments"], json!([{ "run": name, "k": 1 }]), "{paused}");
        let reason = question["reason"].as_str().unwrap_or_default();
        assert!(reason.starts_with("sent at ") && reason.contains("no answer"), "{reason}");
        assert_eq!((&question["about"]["kind"], &question["about"]["call"]), (&json!("unknownEffect"), &json!(2)));
        assert_eq!(effects.of(name)["1"], 1, "it is not sent again before a decision");
        let call = question["callId"].as_u64().expect("a number");
        if name == "cli" {
            let waiting = json_of(&config, &["pending", run]);
            assert_eq!(waiting[0]["callId"], json!(call), "{waiting}");
            let edited = toolgate(&config, &["approve", run, &call.to_string(), "--arguments", "[]"]);
            assert_eq!(edited.code, Some(2), "what was sent cannot be edited: {}", edited.stderr);
            json_of(&config, &["approve", run, &call.to_string(), "--answer", r#"{"saved":"seen"}"#]);
            continue;
        }
        let (status, refused) =
            server.decide(run, json!({ "callId": call, "decision": "edit", "arguments": [] })).await;
        assert_eq!(status, 400, "what was sent cannot be edited: {refused}");
        let mut decision = json!({ "callId": call, "decision": name, "reason": "I looked" });
        if name == "answer" {
            decision["arguments"] = json!({ "saved": "seen" });
        }
        let (status, decided) = server.decide(run, decision).await;
        assert_eq!(status, 200, "{decided}");
    }
    let expected = [
        (Some(json!([0, 1, 2])), 2),
        (Some(json!([0, "UNKNOWN_EFFECT", 2])), 1),
        (Some(json!([0, "seen", 2])), 1),
        (None, 1),
        (Some(json!([0, "seen", 2])), 1),
    ];
    for ((name, run), (value, times)) in names.into_iter().zip(&runs).zip(expected) {
        let report = server.report(run).await.expect("a report");
        match value {
            Some(value) => assert_eq!(report["value"], value, "{name}: {report}"),
            None => {
                assert_eq!((&report["code"], &report["safe_to_retry"]), (&json!("ABORTED"), &json!(false)), "{report}");
            }
        }
        let counts = effects.of(name);
        assert_eq!((counts["0"], counts["1"]), (1, times), "{name}: {counts:?}");
    }
    let keys = effects.keys();
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len() + 1, keys.len(), "what is sent again has the key that it had: {keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_anybody_to_ask_a_run_with_such_a_call_ends_and_names_it() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration(folder.path(), &effects, None);
    let server = Server::start(&config).await;
    let run = server.begin(&code_of("run"), "one").await.expect("begun");
    effects.reached(2).await;
    server.kill().await;
    let server = Server::start(&config).await;
    let report = server.report(&run).await.expect("a report");
    assert_unknown(&report);
    let error = report["error"].as_str().unwrap_or_default();
    assert!(error.contains("hang") && error.contains("sent at") && error.contains("no answer"), "{report}");
    assert_eq!(effects.total(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_from_before_the_crash_does_not_send_a_call_again() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let policy = json!({ "policy": [{ "tool": "hang", "do": "ask", "reason": "It hangs." }] });
    let config = configuration_with(folder.path(), &effects, None, policy);
    let server = Server::start(&config).await;
    let run = server.begin(&code_of("run"), "one").await.expect("begun");
    let before = server.paused(&run).await;
    let approve = |paused: &Value| json!({ "callId": paused["pending"][0]["callId"], "decision": "approve" });
    assert_eq!(server.decide(&run, approve(&before)).await.0, 200);
    effects.reached(2).await;
    server.kill().await;
    let server = Server::start(&config).await;
    let after = server.paused(&run).await;
    assert_eq!(
        after["pending"][0]["about"]["kind"], "unknownEffect",
        "a policy that asks has a person who decides: {after}"
    );
    // The same decision again, as a client sends it whose connection was lost.
    assert_eq!(server.decide(&run, approve(&before)).await.0, 200);
    let still = server.paused(&run).await;
    assert_eq!((&still["pending"], effects.total()), (&after["pending"], 2), "it was about the first time");
    assert_eq!(server.decide(&run, approve(&after)).await.0, 200);
    // It is asked about by its rule as well when it is made again: the answer stands.
    let report = server.report(&run).await.expect("a report");
    assert_eq!(report["value"], json!([0, 1, 2]), "{report}");
    assert_eq!(effects.of("run")["1"], 2);
}

/// Two servers of one kind: of one the configuration says that its tool may be called again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_call_of_a_tool_that_is_configured_as_idempotent_is_made_again() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let tools = json!({ "known": { "tools": { "hang_*": { "idempotent": true } } } });
    let config = configuration_with(folder.path(), &effects, None, json!({ "backends": tools }));
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&config).expect("a file")).expect("JSON");
    let script = format!("{}/../gateway/tests/fixtures/backend.py", env!("CARGO_MANIFEST_DIR"));
    for name in ["known", "other"] {
        settings["mcpServers"][name] = json!({ "command": "python3", "args": [script] });
    }
    std::fs::write(&config, settings.to_string()).expect("written");
    let lines = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default().lines().count();
    let server = Server::start(&config).await;
    let mut runs = Vec::new();
    for name in ["known", "other"] {
        let file = json!(folder.path().join(name));
        runs.push(
            server.begin(&format!("return await {name}.hang_once({{ file: {file} }})"), name).await.expect("begun"),
        );
    }
    while lines("known") + lines("other") < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    server.kill().await;
    let server = Server::start(&config).await;
    let (known, other) =
        (server.report(&runs[0]).await.expect("a report"), server.report(&runs[1]).await.expect("a report"));
    assert_eq!((&known["value"], lines("known")), (&json!("done 2 times"), 2), "{known}");
    assert_unknown(&other);
    assert_eq!(lines("other"), 1, "never a silent repeat");
}
