//! Webhooks of durable runs: signed requests that tell of an end or of a pause, and signed answers that decide.

use crate::decisions::asking;
use crate::harness::{Case, cases};
use crate::support::{Setup, start};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_run_that_waits_is_told_to_a_signed_webhook,
        a_run_without_a_webhook_that_waits_is_told_to_that_of_the_configuration,
        the_receiver_of_a_webhook_decides_by_a_signed_answer,
        the_end_is_told_to_a_signed_webhook,
    ]
}

/// The head and the body of the next request, which is answered with nothing.
async fn received(listener: &tokio::net::TcpListener) -> (String, Value) {
    answered(listener, |_| "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned()).await
}

/// The head and the body of the next request, which gets the answer to its head.
async fn answered(listener: &tokio::net::TcpListener, answer: impl Fn(&str) -> String) -> (String, Value) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut stream, _) = listener.accept().await.expect("a request");
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.expect("a request");
        assert!(read > 0, "the request ends early: {}", String::from_utf8_lossy(&request));
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).to_string();
        let is_whole = |head: &str, body: &str| {
            let head = head.to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|it| it.parse().ok());
            length.is_some_and(|length: usize| body.len() >= length)
        };
        if let Some((head, body)) = text.split_once("\r\n\r\n").filter(|(head, body)| is_whole(head, body)) {
            let head = head.to_lowercase();
            stream.write_all(answer(&head).as_bytes()).await.expect("an answer");
            return (head, serde_json::from_str(body).expect("JSON"));
        }
    }
}

async fn a_run_that_waits_is_told_to_a_signed_webhook() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/waits", listener.local_addr().expect("an address"));
    let server = start(Setup::default()).await;
    let code = "return await bank.pay({ call: 1, amount: 10 }).catch(error => error.code)";
    let run = server.begin(json!({"code": code, "webhook": url})).await;
    let (head, told) = received(&listener).await;
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    assert_eq!((&told["runId"], &told["status"]), (&json!(run), &json!("paused")), "{told}");
    let call = told["pending"][0]["callId"].clone();
    assert_eq!(server.decide(&run, json!([{"callId": call, "decision": "deny"}])).await.status, 200);
    let (head_of_end, told) = received(&listener).await;
    assert_eq!((&told["runId"], &told["status"]), (&json!(run), &json!("done")), "{told}");
    let id = |head: &str| head.lines().find(|line| line.starts_with("webhook-id: ")).map(str::to_owned);
    assert_ne!(id(&head), id(&head_of_end), "each has an id of its own");
}

/// Programs of agents and requests of `/v1/run` have no webhook of their own.
async fn a_run_without_a_webhook_that_waits_is_told_to_that_of_the_configuration() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/waits", listener.local_addr().expect("an address"));
    let server = start(Setup { webhook: Some(url), ..asking() }).await;
    let answer = server.post("/v1/run", json!({"code": "return await shop.find({ what: 'tea' })"})).await.json();
    let run = answer["paused"]["runId"].as_str().expect("a run").to_owned();
    let (head, told) = received(&listener).await;
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    assert_eq!((&told["runId"], &told["status"]), (&json!(run), &json!("paused")), "{told}");
    assert_eq!(told["pending"][0]["arguments"], json!({"what": "tea"}), "{told}");
    // Its end is not told: the run has no webhook.
    let call = told["pending"][0]["callId"].clone();
    assert_eq!(server.decide(&run, json!([{"callId": call, "decision": "approve"}])).await.status, 200);
    assert_eq!(server.ended(&run).await["report"]["value"], json!({"found": "tea"}));
    let next = server.post("/v1/run", json!({"code": "return await shop.find({ what: 'milk' })"})).await.json();
    let (_, told) = received(&listener).await;
    assert_eq!((&told["runId"], &told["status"]), (&next["paused"]["runId"], &json!("paused")), "{told}");
}

/// An answer with these decisions about the pause of a request with this head, signed with this secret.
fn decided_by(secret: &str, head: &str, decisions: &Value) -> String {
    let id = head.lines().find_map(|line| line.strip_prefix("webhook-id: ")).expect("an id");
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let body = json!({ "decisions": decisions }).to_string();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = BASE64_STANDARD.encode(ring::hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes()));
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\nwebhook-timestamp: {at}\r\nwebhook-signature: v1,{tag}\r\n\r\n{body}"
    )
}

async fn the_receiver_of_a_webhook_decides_by_a_signed_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/waits", listener.local_addr().expect("an address"));
    let setup = Setup { webhook: Some(url), ..asking() };
    let server = start(setup).await;
    let code = "return [await shop.find({ what: 'tea' }), await shop.find({ what: 'milk' })]";
    let answer = server.post("/v1/run", json!({"code": code})).await.json();
    let run = answer["paused"]["runId"].as_str().expect("a run").to_owned();
    let call = answer["paused"]["pending"][0]["callId"].clone();
    // A stranger has no secret of ours.
    let approve = json!([{"callId": call, "decision": "approve"}]);
    answered(&listener, |head| decided_by("guessed", head, &approve)).await;
    let state = server.get(&format!("/v1/runs/{run}?wait=1")).await.json();
    assert_eq!((&state["status"], &state["pending"][0]["callId"]), (&json!("paused"), &call), "{state}");
    assert_eq!(server.decide(&run, approve).await.status, 200);
    // The calls of a run are numbered in their order.
    let edit =
        json!([{"callId": call.as_u64().expect("a number") + 1, "decision": "edit", "arguments": {"what": "salt"}}]);
    let (_, told) = answered(&listener, |head| decided_by("secret", head, &edit)).await;
    assert_eq!(told["pending"][0]["callId"], edit[0]["callId"], "{told}");
    let ended = server.ended(&run).await;
    assert_eq!(ended["report"]["value"], json!([{"found": "tea"}, {"found": "salt"}]), "{ended}");
}

async fn the_end_is_told_to_a_signed_webhook() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/ended", listener.local_addr().expect("an address"));
    let server = start(Setup::default()).await;
    let run = server.begin(json!({"code": "return 7", "webhook": url})).await;
    let (head, body) = received(&listener).await;
    let field = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).expect("a header").to_owned()
    };
    assert_eq!(field("webhook-id"), run);
    assert!(field("webhook-signature").starts_with("v1,"), "{head}");
    assert_eq!((&body["runId"], &body["status"], &body["report"]["value"]), (&json!(run), &json!("done"), &json!(7)));
    let wrong = server.post("/v1/runs", json!({"code": "return 1", "webhook": "ftp://x"})).await;
    assert_eq!(wrong.refusal(), "400 INVALID_INPUT /webhook");
}
