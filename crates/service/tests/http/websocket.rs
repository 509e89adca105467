//! The WebSocket: functions that the caller lends.

use crate::harness::{Case, cases};
use crate::support::{Server, Setup, hold, http, key, start};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use toolgate_engine::Engine;
use toolgate_service::{ServerLimits, ServiceLimits};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_remote_function_is_called_and_the_report_comes_last,
        lines_come_as_they_are_printed,
        calls_may_be_answered_in_any_order,
        a_remote_function_keeps_its_error_code,
        arguments_are_checked_before_they_are_sent,
        an_invalid_first_message_is_refused_with_a_pointer,
        an_invalid_reply_fails_its_call_only,
        a_message_that_belongs_to_no_call_aborts_the_run_and_the_report_comes_last,
        a_reply_that_is_too_large_fails_its_call_only,
        a_message_that_is_too_large_fails_the_pending_calls_only,
        a_websocket_run_takes_the_output_options,
        closing_the_websocket_aborts_the_run,
        a_run_that_waits_for_a_person_says_so_and_goes_on,
        every_pause_of_a_websocket_run_can_be_decided_at_another_replica,
        a_run_that_waits_stays_when_the_websocket_closes,
        a_websocket_run_can_be_staged,
        a_silent_websocket_is_closed,
        a_result_has_the_same_text_over_a_websocket,
        a_result_that_does_not_fit_into_memory_is_refused,
        a_caller_that_sends_and_reads_nothing_is_closed,
        a_websocket_without_a_first_message_is_closed,
        the_number_of_websockets_is_limited,
        the_websockets_of_one_key_leave_some_to_others,
        an_unfinished_message_counts_in_the_memory_of_bodies,
        a_websocket_needs_a_key,
        a_foreign_origin_cannot_open_a_websocket,
        a_shutdown_aborts_the_run_and_sends_its_report,
    ]
}

struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    async fn connect(server: &Server) -> Self {
        let url = format!("ws://{}/v1/run/ws", server.at);
        Client(connect_async(url).await.expect("connected").0)
    }

    async fn open(server: &Server, opening: Value) -> Self {
        let mut client = Self::connect(server).await;
        client.say(opening).await;
        client
    }

    async fn say(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.expect("sent");
    }

    /// The next text; nothing once the socket is closed.
    async fn hear(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).expect("JSON")),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next text must be a call of this function: its number.
    async fn called(&mut self, name: &str) -> u64 {
        let message = self.hear().await.expect("a message");
        assert_eq!(message["fn"], json!(name), "{message}");
        message["call"].as_u64().expect("a number")
    }

    /// The next text must be the report, and the last.
    async fn report(&mut self) -> Value {
        let message = self.hear().await.expect("a message");
        assert!(message["report"].is_object(), "{message}");
        assert_eq!(self.hear().await, None);
        message["report"].clone()
    }
}

fn lending(code: &str, functions: Value) -> Value {
    json!({"code": code, "functions": functions})
}

async fn a_remote_function_is_called_and_the_report_comes_last() {
    let server = start(Setup::default()).await;
    let functions = json!({"addNumbers": {"params": {"a": "number", "b": "number"}}});
    let mut opening = lending("return {sum: await addNumbers(context.a, 2), own: await add(1, 1)}", functions);
    opening["context"] = json!({"a": 1});
    let mut client = Client::open(&server, opening).await;
    assert_eq!(client.hear().await, Some(json!({"call": 1, "fn": "addNumbers", "args": [1, 2]})));
    client.say(json!({"call": 1, "result": 3})).await;
    let report = client.report().await;
    assert_eq!(report["result"], json!({"sum": 3, "own": 2}), "{report}");
    assert_eq!(report["calls"][0]["name"], json!("addNumbers"));
}

async fn lines_come_as_they_are_printed() {
    let server = start(Setup::default()).await;
    let code = "console.log('before'); await wait(); console.error('after')";
    let mut client = Client::open(&server, lending(code, json!({"wait": {}}))).await;
    assert_eq!(client.hear().await, Some(json!({"log": "before", "stream": "stdout"})));
    let call = client.called("wait").await;
    client.say(json!({"call": call, "result": null})).await;
    assert_eq!(client.hear().await, Some(json!({"log": "after", "stream": "stderr"})));
    assert_eq!(client.report().await["logs"]["stdout"], json!(["before"]));
}

async fn calls_may_be_answered_in_any_order() {
    let server = start(Setup::default()).await;
    let code = "return Promise.all([1, 2, 3].map(n => twice(n)))";
    let mut client = Client::open(&server, lending(code, json!({"twice": {"params": ["n"]}}))).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(client.hear().await.expect("a call"));
    }
    for call in calls.iter().rev() {
        let twice = call["args"][0].as_u64().expect("a number") * 2;
        client.say(json!({"call": call["call"], "result": twice})).await;
    }
    assert_eq!(client.report().await["result"], json!([2, 4, 6]));
}

async fn a_remote_function_keeps_its_error_code() {
    let server = start(Setup::default()).await;
    let code = "const said = []; for (const how of ['text', 'object']) \
                try { await broken(how) } catch (error) { said.push([error.message, error.code, error.data?.code]) } return said";
    let mut client = Client::open(&server, lending(code, json!({"broken": {}}))).await;
    let call = client.called("broken").await;
    client.say(json!({"call": call, "error": "no luck"})).await;
    let call = client.called("broken").await;
    client.say(json!({"call": call, "error": {"message": "gone", "code": "E7"}})).await;
    let report = client.report().await;
    assert_eq!(report["result"], json!([["no luck", "FAILED", null], ["gone", "E7", "E7"]]), "{report}");
    assert_eq!(report["calls"][1]["state"], json!("failed"), "{report}");
}

async fn arguments_are_checked_before_they_are_sent() {
    let server = start(Setup::default()).await;
    let functions = json!({"square": {"params": {"n": "number"}}});
    let mut client = Client::open(&server, lending("return square('x')", functions)).await;
    let report = client.report().await;
    assert_eq!((&report["code"], &report["calls"][0]["state"]), (&json!("RUNTIME"), &json!("not_sent")), "{report}");
}

async fn an_invalid_first_message_is_refused_with_a_pointer() {
    let server = start(Setup::default()).await;
    let large = |number: usize| json!({ "params": { "x": { "type": "string", "pattern": format!("a{{{}}}", 9_000 + number) } } });
    let many: Value = (0..200).map(|number| (format!("f{number}"), large(number))).collect();
    let one: Value = (0..200).map(|number| (format!("p{number}"), large(number)["params"]["x"].clone())).collect();
    for (opening, pointer) in [
        (json!({}), "/code"),
        (json!({"code": "", "functions": many}), "/functions"),
        (json!({"code": "", "functions": {"a": {"params": one}}}), "/functions/a"),
        (json!({"code": "", "functions": {"fetch": {}}}), "/functions/fetch"),
        (json!({"code": "", "functions": {"a": {"params": {"x": {"$ref": "#"}}}}}), "/functions/a"),
        (json!({"code": "", "builtins": ["nope"]}), "/builtins/0"),
        (json!({"code": "", "timeoutMs": 0}), "/timeoutMs"),
        (json!({"code": "", "stage": true, "functions": {"twice": {"params": ["n"]}}}), "/stage"),
        (json!([]), ""),
        (json!(["return 41 + 1", null, null, null, null, null, null, null, null, null, null, null]), ""),
        (json!(null), ""),
    ] {
        let mut client = Client::open(&server, opening.clone()).await;
        let answer = client.hear().await.expect("an answer");
        assert_eq!(answer["error"]["pointer"], json!(pointer), "{opening}: {answer}");
        assert!(!pointer.is_empty() || answer["error"]["message"] == "must be an object", "{answer}");
        assert_eq!(client.hear().await, None);
    }
}

async fn an_invalid_reply_fails_its_call_only() {
    let server = start(Setup::default()).await;
    let code = "const said = []; for (let n = 0; n < 3; n++) try { said.push(await wait()) } catch (error) { said.push(error.message) } \
                return said";
    let mut client = Client::open(&server, lending(code, json!({"wait": {}}))).await;
    for extra in [json!({"extra": 2}), json!({"error": "x"}), json!({})] {
        let mut reply = json!({"call": client.called("wait").await, "result": 1});
        reply.as_object_mut().expect("an object").extend(extra.as_object().cloned().expect("an object"));
        client.say(reply).await;
    }
    let said = client.report().await["result"].clone();
    let said: Vec<&str> = said.as_array().expect("a list").iter().map(|it| it.as_str().unwrap_or("1")).collect();
    assert!(said[0].starts_with("the reply is invalid: unknown field `extra`"), "{said:?}");
    assert_eq!(said[1..], ["the reply is invalid: a reply has a result or an error, not both", "1"]);
}

async fn a_message_that_belongs_to_no_call_aborts_the_run_and_the_report_comes_last() {
    let server = start(Setup::default()).await;
    for (message, warning) in [
        (Message::text(r#"{"call": 9, "result": 1}"#), "no such call: 9"),
        (Message::text(r#"{"result": 1}"#), "missing field `call`"),
        (Message::text("[1]"), "must be an object"),
        (Message::binary(b"{}".to_vec()), "messages must be text"),
    ] {
        let code = "await shop.find({ what: 'tea' }); return wait()";
        let mut client = Client::open(&server, lending(code, json!({"wait": {}}))).await;
        client.called("wait").await;
        client.0.send(message).await.expect("sent");
        let report = client.report().await;
        assert_eq!(report["code"], json!("ABORTED"), "{report}");
        // What the run did is told.
        assert_eq!(
            (&report["calls"][0]["name"], &report["calls"][0]["state"]),
            (&json!("shop.find"), &json!("applied"))
        );
        let warnings = report["warnings"].to_string();
        assert!(warnings.contains("invalid message") && warnings.contains(warning), "{warnings}");
    }
}

async fn a_reply_that_is_too_large_fails_its_call_only() {
    let server = start(Setup::default()).await;
    let code = "let code; try { await wait() } catch (error) { code = error.code } return [code, await wait()]";
    let mut client = Client::open(&server, lending(code, json!({"wait": {}}))).await;
    let call = client.called("wait").await;
    client.say(json!({"call": call, "result": "x".repeat(1024 * 1024)})).await;
    let call = client.called("wait").await;
    client.say(json!({"call": call, "result": 1})).await;
    assert_eq!(client.report().await["result"], json!(["TOO_LARGE", 1]));
}

async fn a_message_that_is_too_large_fails_the_pending_calls_only() {
    let server = start(Setup::default()).await;
    let code = "const codes = []; for (let n = 0; n < 2; n++) try { await wait() } catch (error) { codes.push(error.code) } \
                return codes";
    let mut client = Client::open(&server, lending(code, json!({"wait": {}}))).await;
    let call = client.called("wait").await;
    // The server stops reading in the middle of the message.
    let _ = client.0.send(Message::text(json!({"call": call, "result": "x".repeat(3 << 20)}).to_string())).await;
    let last = client.hear().await.expect("a report");
    assert_eq!(last["report"]["result"], json!(["TOO_LARGE", "UNAVAILABLE"]), "{last}");
}

async fn a_websocket_run_takes_the_output_options() {
    let server = start(Setup::default()).await;
    let code = "return Array.from({length: 2000}, (_, id) => ({id, name: 'row ' + id}))";
    let mut client = Client::open(&server, json!({"code": code, "maxOutputSize": 4096, "intent": "row 7"})).await;
    let report = client.report().await;
    assert!(report.get("value").is_none() && report.get("result").is_none(), "{report}");
    let text = report["output"]["text"].as_str().unwrap_or_default();
    assert!(text.len() <= 4096 && text.contains("row 7"), "{report}");
    let mut client = Client::open(&server, json!({"code": "", "maxOutputSize": 1})).await;
    assert_eq!(client.hear().await.expect("an error")["error"]["pointer"], json!("/maxOutputSize"));
}

/// A server for one run at a time, whose engine is free again only when a run is over.
async fn narrow(service: ServiceLimits) -> (Server, crate::support::Hold) {
    let hold = hold();
    let engine = Engine::builder().max_concurrent_runs(1).max_waiting_runs(1);
    let functions = [hold.function.clone()].into_iter().collect();
    (start(Setup { engine, functions, service, ..Setup::default() }).await, hold)
}

async fn closing_the_websocket_aborts_the_run() {
    let (server, mut hold) = narrow(ServiceLimits::default()).await;
    let mut client = Client::open(&server, json!({"code": "await hold(); for(;;);"})).await;
    hold.began.recv().await.expect("it began");
    client.0.close(None).await.expect("closed");
    hold.dropped.recv().await.expect("the call is ended with its run");
    assert_eq!(server.run(json!({"code": "return 1"})).await["result"], json!(1));
    // Without a goodbye, too.
    let client = Client::open(&server, json!({"code": "await hold(); for(;;);"})).await;
    hold.began.recv().await.expect("it began");
    drop(client);
    hold.dropped.recv().await.expect("the call is ended with its run");
}

/// Asks about `shop.find`.
fn asking() -> Setup {
    Setup { policy: json!([{"tool": "shop.find", "do": "ask", "reason": "finds are approved"}]), ..Setup::default() }
}

const FINDS: &str = "console.log('before'); const n = await twice(2); const found = await shop.find({ what: 'tea' }); \
                     console.log('after'); return [await twice(n), found]";

async fn a_run_that_waits_for_a_person_says_so_and_goes_on() {
    let server = start(asking()).await;
    let mut client = Client::open(&server, lending(FINDS, json!({"twice": {"params": ["n"]}}))).await;
    assert_eq!(client.hear().await, Some(json!({"log": "before", "stream": "stdout"})));
    let call = client.called("twice").await;
    client.say(json!({"call": call, "result": 4})).await;
    let paused = client.hear().await.expect("a message")["paused"].clone();
    let pending = &paused["pending"][0];
    assert_eq!((&pending["backend"], &pending["tool"]), (&json!("shop"), &json!("find")), "{paused}");
    assert_eq!((&pending["arguments"], &pending["reason"]), (&json!({"what": "tea"}), &json!("finds are approved")));
    let run = paused["runId"].as_str().expect("an id");
    let decisions = json!({"decisions": [{"callId": pending["callId"], "decision": "approve"}]});
    assert_eq!(server.post(&format!("/v1/runs/{run}/decisions"), decisions).await.status, 200);
    assert_eq!(client.hear().await, Some(json!({"log": "after", "stream": "stdout"})), "each line once");
    let call = client.called("twice").await;
    client.say(json!({"call": call, "result": 8})).await;
    let report = client.report().await;
    assert_eq!(report["result"], json!([8, {"found": "tea"}]), "{report}");
    assert_eq!(report["calls"][1]["decision"]["verdict"], json!("approved"), "{report}");
}

async fn a_websocket_run_can_be_staged() {
    let server = start(Setup::default()).await;
    let code = "const sum = await add(1, 2); return `${await add(sum, 4)}`";
    let mut client = Client::open(&server, json!({"code": code, "stage": true})).await;
    let paused = client.hear().await.expect("a message")["paused"].clone();
    let lines: Vec<&Value> = paused["pending"].as_array().expect("a review").iter().map(|it| &it["callId"]).collect();
    assert_eq!(lines, [1, 2], "{paused}");
    let run = paused["runId"].as_str().expect("an id");
    let decisions = json!({"decisions": [{"callId": 1, "decision": "approve"}, {"callId": 2, "decision": "approve"}]});
    assert_eq!(server.post(&format!("/v1/runs/{run}/decisions"), decisions).await.status, 200);
    assert_eq!(client.report().await["result"], "7");
}

/// Two replicas on one store; the WebSocket is at the first one, the person at the second.
async fn every_pause_of_a_websocket_run_can_be_decided_at_another_replica() {
    let setup = asking();
    let other = Setup { runs: setup.runs.clone(), ..asking() };
    let (server, other) = (start(setup).await, start(other).await);
    let code = "const one = await shop.find({ what: 'tea' }); return [one, await shop.find({ what: 'milk' })]";
    let mut client = Client::open(&server, json!({ "code": code })).await;
    let mut runs = Vec::new();
    for what in ["tea", "milk"] {
        let paused = client.hear().await.expect("a message")["paused"].clone();
        let pending = paused["pending"].as_array().expect("questions");
        assert_eq!((pending.len(), &pending[0]["arguments"]), (1, &json!({ "what": what })), "{paused}");
        let run = paused["runId"].as_str().expect("an id").to_owned();
        let decisions = json!({"decisions": [{"callId": pending[0]["callId"], "decision": "approve"}]});
        assert_eq!(other.post(&format!("/v1/runs/{run}/decisions"), decisions).await.status, 200);
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1], "one run");
    let report = client.report().await;
    assert_eq!(report["result"], json!([{"found": "tea"}, {"found": "milk"}]), "{report}");
    assert_eq!((&report["executionId"], &report["path"]), (&json!(runs[0]), &json!("script")), "wherever it ended");
}

async fn a_run_that_waits_stays_when_the_websocket_closes() {
    let server = start(asking()).await;
    let code = "return await shop.find({ what: 'tea' })";
    let mut client = Client::open(&server, json!({"code": code})).await;
    let paused = client.hear().await.expect("a message")["paused"].clone();
    client.0.close(None).await.expect("closed");
    drop(client);
    let path = format!("/v1/runs/{}", paused["runId"].as_str().expect("an id"));
    let decisions = json!({"decisions": [{"callId": paused["pending"][0]["callId"], "decision": "approve"}]});
    assert_eq!(server.post(&format!("{path}/decisions"), decisions).await.status, 200);
    let ended = loop {
        let run = server.get(&format!("{path}?wait=30")).await.json();
        if run["status"] == "done" {
            break run;
        }
    };
    assert_eq!(ended["report"]["value"], json!({"found": "tea"}), "{ended}");
}

async fn a_silent_websocket_is_closed() {
    let silence = Duration::from_secs(1);
    let (server, mut hold) = narrow(ServiceLimits { silence, ..ServiceLimits::default() }).await;
    // Who is not listened to can't answer a ping.
    let _client = Client::open(&server, json!({"code": "return hold()"})).await;
    hold.began.recv().await.expect("it began");
    hold.dropped.recv().await.expect("the call is ended with its run");
    // Who listens, answers, and is not given up.
    let mut client = Client::open(&server, json!({"code": "await sleep(2500); return 1"})).await;
    assert_eq!(client.report().await["result"], json!(1));
}

async fn a_result_has_the_same_text_over_a_websocket() {
    let server = start(Setup::default()).await;
    let mut client = Client::open(&server, json!({"code": "const list = [1, 2]; return list"})).await;
    let Some(Ok(Message::Text(text))) = client.0.next().await else { panic!("a message") };
    assert!(text.starts_with(r#"{"report":{"ok":true,"value":[1,2],"#) && text.contains(r#""result":[1,2]"#), "{text}");
}

async fn a_result_that_does_not_fit_into_memory_is_refused() {
    let (server, _hold) = narrow(ServiceLimits { memory: 4 << 20, ..ServiceLimits::default() }).await;
    for (length, is_report) in [(100_000, true), (2_000_000, false), (100_000, true)] {
        let code = format!("return 'x'.repeat({length})");
        let mut client = Client::open(&server, json!({ "code": code })).await;
        let last = client.hear().await.expect("a message");
        assert_eq!(last.get("report").is_some(), is_report, "{length}");
        assert!(is_report || last["error"]["code"] == "UNAVAILABLE", "{last}");
        assert_eq!(client.hear().await, None);
    }
}

async fn a_caller_that_sends_and_reads_nothing_is_closed() {
    let silence = Duration::from_secs(1);
    let (server, _hold) = narrow(ServiceLimits { silence, ..ServiceLimits::default() }).await;
    // Longer than what the kernel buffers.
    let mut client = Client::open(&server, json!({"code": "return 'x'.repeat(15e6)"})).await;
    let pings = async { while client.0.send(Message::Ping(Default::default())).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(120), pings).await.expect("closed");
}

async fn a_websocket_without_a_first_message_is_closed() {
    let handshake_time = Duration::from_millis(50);
    let (server, _hold) = narrow(ServiceLimits { handshake_time, ..ServiceLimits::default() }).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.hear().await, None);
}

async fn the_number_of_websockets_is_limited() {
    let (server, _hold) = narrow(ServiceLimits { sockets: 1, ..ServiceLimits::default() }).await;
    let mut first = Client::connect(&server).await;
    let url = format!("ws://{}/v1/run/ws", server.at);
    assert_eq!(status(connect_async(&url).await.expect_err("no place")), 503);
    first.say(json!({"code": "return 1"})).await;
    assert_eq!(first.report().await["result"], json!(1));
    drop(first);
    // The place is free as soon as the server has seen the end, which is a moment after the client has.
    while connect_async(&url).await.is_err() {}
}

/// A WebSocket of the holder of a key, or the status of the refusal.
async fn connect_with(server: &Server, bearer: &str) -> Result<Client, u16> {
    let mut request = format!("ws://{}/v1/run/ws", server.at).into_client_request().expect("a request");
    request.headers_mut().insert("authorization", format!("Bearer {bearer}").parse().expect("a header"));
    connect_async(request).await.map(|(client, _)| Client(client)).map_err(status)
}

async fn the_websockets_of_one_key_leave_some_to_others() {
    let http = http(vec![key("greedy"), key("other")]);
    let service = ServiceLimits { sockets: 8, ..ServiceLimits::default() };
    let server = start(Setup { http, service, ..Setup::default() }).await;
    let mut open = Vec::new();
    let refused = loop {
        match connect_with(&server, "greedy-key").await {
            Ok(client) => open.push(client),
            Err(status) => break status,
        }
    };
    assert_eq!((refused, open.len()), (503, 4));
    assert!(connect_with(&server, "other-key").await.is_ok());
}

async fn an_unfinished_message_counts_in_the_memory_of_bodies() {
    use tokio::io::AsyncWriteExt;
    let (server, _hold) = narrow(ServiceLimits { memory: 256 << 10, ..ServiceLimits::default() }).await;
    for (sent, is_refused) in [(10_000, false), (400_000, true)] {
        let mut client = Client::connect(&server).await;
        let MaybeTlsStream::Plain(stream) = client.0.get_mut() else { panic!("a plain stream") };
        // A text frame of 1 MB, of which only the beginning is sent. The mask changes nothing.
        let mut frame = vec![0x81, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0];
        frame.resize(frame.len() + sent, b' ');
        // A server that refuses does not read to the end.
        let _ = stream.write_all(&frame).await;
        if is_refused {
            let answer = client.hear().await.expect("an answer");
            assert_eq!(answer["error"]["code"], json!("UNAVAILABLE"), "{answer}");
        } else {
            let metrics = server.get("/metrics").await.body;
            assert!(metrics.contains("toolgate_body_bytes 0"), "the first bytes are free: {metrics}");
        }
    }
    // It is given back.
    assert_eq!(
        server.run(json!({"code": "return 1", "context": {"a": "x".repeat(200_000)}})).await["result"],
        json!(1)
    );
}

fn status(error: Error) -> u16 {
    match error {
        Error::Http(response) => response.status().as_u16(),
        error => panic!("{error}"),
    }
}

async fn a_websocket_needs_a_key() {
    let server = start(Setup { http: http(vec![key("all")]), ..Setup::default() }).await;
    let url = format!("ws://{}/v1/run/ws", server.at);
    assert_eq!(status(connect_async(&url).await.expect_err("no key")), 401);
    let mut request = url.into_client_request().expect("a request");
    request.headers_mut().insert("authorization", "Bearer all-key".parse().expect("a header"));
    let mut client = Client(connect_async(request).await.expect("connected").0);
    client.say(json!({"code": "return 1"})).await;
    assert_eq!(client.report().await["result"], json!(1));
}

async fn a_foreign_origin_cannot_open_a_websocket() {
    let server = start(Setup::default()).await;
    let mut request = format!("ws://{}/v1/run/ws", server.at).into_client_request().expect("a request");
    request.headers_mut().insert("origin", "https://evil.example".parse().expect("a header"));
    assert_eq!(status(connect_async(request).await.expect_err("a foreign page")), 403);
}

async fn a_shutdown_aborts_the_run_and_sends_its_report() {
    let mut hold = hold();
    let mut server = start(Setup {
        functions: [hold.function.clone()].into_iter().collect(),
        server: ServerLimits { grace: Duration::from_millis(50), ..ServerLimits::default() },
        ..Setup::default()
    })
    .await;
    let mut waiting = Client::connect(&server).await;
    let mut running = Client::open(&server, json!({"code": "return hold()"})).await;
    hold.began.recv().await.expect("it began");
    server.shutdown.begin.cancel();
    assert_eq!(waiting.hear().await, None);
    assert_eq!(running.report().await["code"], json!("ABORTED"));
    (&mut server.served).await.expect("no panic").expect("served");
}
