//! A backend that tells programs what it was started with: none of it leaves this machine in an export or a webhook.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::commands::toolgate;
use super::configuration_with;
use super::effects::Effects;
use super::server::Server;

const BY_NAME: &str = "opensesame-of-the-backend";
const BY_FORM: &str = "canary-of-the-backend-93ac";

/// Adds the server to a configuration.
fn add_server(config: &Path) {
    let mut settings: Value = serde_json::from_slice(&std::fs::read(config).expect("a file")).expect("JSON");
    let script = format!("{}/../gateway/tests/fixtures/backend.py", env!("CARGO_MANIFEST_DIR"));
    let env = json!({ "API_TOKEN": BY_NAME, "SETTING": BY_FORM });
    settings["mcpServers"]["f"] = json!({ "command": "python3", "args": [script], "env": env });
    std::fs::write(config, settings.to_string()).expect("written");
}

fn has_no_secret(what: &str, text: &str) {
    for secret in [BY_NAME, BY_FORM] {
        assert!(!text.contains(secret), "{secret} is in {what}: {text}");
    }
}

/// The body of the next request, which is answered with 204.
async fn next_body(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.expect("a request");
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.expect("a request");
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").await.expect("answered");
            return body.to_owned();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_that_a_backend_tells_leave_as_stand_ins() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/end", listener.local_addr().expect("an address"));
    let settings = json!({ "guard": { "allow": ["127.0.0.1"] }, "runs.webhook_secret": "the secret of webhooks" });
    let config = configuration_with(folder.path(), &effects, None, settings);
    add_server(&config);
    let server = Server::start(&config).await;
    let code = "const { env } = await f.environment({}); console.log(env.API_TOKEN); \
                return { token: env.API_TOKEN, setting: env.SETTING, state: 'ended' }";
    let body = json!({ "code": code, "durable": true, "webhook": url });
    let begun = server.ask("POST", "/v1/runs", "", Some(&body)).await.expect("begun");
    let run = begun.json["runId"].as_str().expect("an id").to_owned();
    let report = server.report(&run).await.expect("a report");
    assert_eq!(
        (&report["value"]["token"], &report["value"]["setting"]),
        (&json!(BY_NAME), &json!(BY_FORM)),
        "{report}"
    );

    let told = next_body(&listener).await;
    has_no_secret("the webhook", &told);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&told["runId"], &told["report"]["value"]["state"]), (&json!(run), &json!("ended")), "{told}");

    let file = folder.path().join("run.jsonl");
    let exported = toolgate(&config, &["runs", "export", &run, "-o", file.to_str().expect("UTF-8")]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    has_no_secret("the cassette", &std::fs::read_to_string(&file).expect("a cassette"));
    let replayed =
        Command::new(env!("CARGO_BIN_EXE_toolgate")).args(["replay", "--json", "--assert"]).arg(&file).output();
    let replayed = replayed.expect("replayed");
    let replayed_report: Value = serde_json::from_slice(&replayed.stdout).expect("a report");
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stderr));
    assert_eq!(replayed_report["value"]["state"], "ended", "{replayed_report}");
    has_no_secret("the replay", &replayed_report.to_string());

    let page = folder.path().join("run.html");
    let exported = toolgate(&config, &["runs", "export", &run, "--html", "-o", page.to_str().expect("UTF-8")]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("f.environment") || page.contains("environment"), "{page}");
    has_no_secret("the page", &page);

    let stored = ["runs.db", "runs.db-wal"].map(|name| std::fs::read(folder.path().join(name)).unwrap_or_default());
    for secret in [BY_NAME, BY_FORM] {
        let is_there = stored.iter().any(|bytes| bytes.windows(secret.len()).any(|part| part == secret.as_bytes()));
        assert!(!is_there, "{secret} can be read in the store");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cassette_over_http_has_stand_ins_too() {
    let (folder, effects) = (tempfile::tempdir().expect("a folder"), Effects::start().await);
    let config = configuration_with(folder.path(), &effects, None, json!({}));
    add_server(&config);
    let server = Server::start(&config).await;
    let code = "const { env } = await f.environment({}); return [env.API_TOKEN, env.SETTING]";
    let run = server.begin(code, "one").await.expect("begun");
    let report = server.report(&run).await.expect("a report");
    assert_eq!(report["value"], json!([BY_NAME, BY_FORM]), "{report}");
    let cassette = server.text(&format!("/v1/runs/{run}/cassette")).await.expect("a cassette");
    assert!(cassette.contains("environment") && cassette.contains("\"report\""), "{cassette}");
    has_no_secret("the cassette", &cassette);
}
