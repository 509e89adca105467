//! The page's sign-in, and the routes that people look at: who sees what.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use toolgate_config::checked::Key;
use toolgate_service::ServiceLimits;

use crate::harness::{Case, cases};
use crate::support::{Answer, Server, Setup, globs, http, key, start};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_browser_gets_the_page_and_a_program_the_index,
        a_session_has_the_rights_of_its_key_and_needs_its_token,
        a_link_signs_in_once,
        a_session_ends_with_its_key,
        a_session_opens_no_websocket,
        signing_in_is_for_pages_of_the_service,
        tools_are_those_of_the_caller,
        runs_are_those_of_the_caller,
        a_program_is_checked_without_a_run,
        programs_are_checked_a_few_at_a_time,
        counts_rights_and_layers_are_told,
        events_tell_a_caller_of_its_runs,
        event_streams_are_bounded,
        a_stream_ends_with_the_session_that_opened_it,
    ]
}

fn all(name: &str) -> Key {
    Key { backends: None, ..key(name) }
}

async fn two_keys() -> Server {
    start(Setup { http: http(vec![all("alice"), key("bob")]), ..Setup::default() }).await
}

/// The cookie and the token of a new session.
async fn sign_in(server: &Server, body: Value) -> (String, String) {
    let answer = server.post("/page/session", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").expect("a cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    (cookie, answer.json()["csrf"].as_str().expect("a token").to_owned())
}

async fn ask(server: &Server, session: &(String, String), method: &str, path: &str) -> Answer {
    let ask = server.ask(method, path).header("Cookie", &session.0).header("X-Toolgate-CSRF", &session.1);
    ask.send().await
}

async fn a_browser_gets_the_page_and_a_program_the_index() {
    let server = two_keys().await;
    let page = server.ask("GET", "/").header("Accept", "text/html,*/*;q=0.8").send().await;
    assert_eq!((page.status, page.header("vary")), (200, Some("accept")));
    assert!(page.body.starts_with("<!doctype html>") && page.header("content-security-policy").is_some());
    let index = server.ask("GET", "/").header("Accept", "application/json").send().await;
    assert_eq!(index.json()["service"], "toolgate");
    assert_eq!(server.get("/").await.json()["openapi"], "/v1/openapi.json");
    assert_eq!(server.get("/page/nothing.js").await.refusal(), "404 NOT_FOUND");
    let script = server.get("/page/app.js").await;
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(script.header("x-content-type-options"), Some("nosniff"));
}

async fn a_session_has_the_rights_of_its_key_and_needs_its_token() {
    let server = two_keys().await;
    let alice = sign_in(&server, json!({"key": "alice-key"})).await;
    let bob = sign_in(&server, json!({"key": "bob-key"})).await;
    let tools = |answer: Answer| answer.json()["total"].clone();
    assert_eq!(tools(ask(&server, &alice, "GET", "/v1/tools").await), 2);
    assert_eq!(tools(ask(&server, &bob, "GET", "/v1/tools").await), 0);
    let crossed = (alice.0.clone(), bob.1.clone());
    assert_eq!(ask(&server, &crossed, "GET", "/v1/tools").await.refusal(), "403 FORBIDDEN");
    let without = server.ask("GET", "/v1/tools").header("Cookie", &alice.0).send().await;
    assert_eq!(without.refusal(), "403 FORBIDDEN");
    let write = server.ask("POST", "/v1/run").header("Cookie", &alice.0).json(r#"{"code": "return 1"}"#).send().await;
    assert_eq!(write.refusal(), "403 FORBIDDEN");
    let token_alone = server.ask("GET", "/v1/tools").header("X-Toolgate-CSRF", &alice.1).send().await;
    assert_eq!(token_alone.refusal(), "401 UNAUTHORIZED");
    assert_eq!(ask(&server, &alice, "GET", "/page/session").await.json()["caller"], "alice");
    assert_eq!(server.get("/page/session").await.json().get("caller"), None);
    assert_eq!(ask(&server, &crossed, "DELETE", "/page/session").await.refusal(), "403 FORBIDDEN");
    assert_eq!(ask(&server, &alice, "DELETE", "/page/session").await.status, 204);
    assert_eq!(ask(&server, &alice, "GET", "/v1/tools").await.refusal(), "401 UNAUTHORIZED");
    assert_eq!(ask(&server, &bob, "GET", "/v1/tools").await.status, 200, "another session stays");
}

async fn a_link_signs_in_once() {
    let server = two_keys().await;
    let answer = server.ask("POST", "/v1/page/links").bearer("bob-key").body("").send().await;
    assert_eq!((answer.status, answer.header("cache-control")), (201, Some("no-store")));
    let url = answer.json()["url"].as_str().expect("a link").to_owned();
    let (base, link) = url.split_once("#link=").expect("behind the number sign");
    assert_eq!(base, format!("http://{}/", server.at));
    let bob = sign_in(&server, json!({"link": link})).await;
    assert_eq!(ask(&server, &bob, "GET", "/page/session").await.json()["caller"], "bob");
    let again = server.post("/page/session", json!({"link": link})).await;
    assert_eq!(again.refusal(), "401 UNAUTHORIZED");
    let told = again.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert!(told.contains("a link signs one browser in, once") && !told.contains("authorization"), "{told}");
    let invented = server.post("/page/session", json!({"link": "invented"})).await;
    assert_eq!(invented.json(), again.json(), "the reason is not told");
    for body in [json!({}), json!({"key": "alice-key", "link": "1"})] {
        assert_eq!(server.post("/page/session", body).await.refusal(), "400 INVALID_INPUT ");
    }
    assert_eq!(server.ask("POST", "/v1/page/links").body("").send().await.refusal(), "401 UNAUTHORIZED");
}

async fn a_session_ends_with_its_key() {
    let server = two_keys().await;
    let alice = sign_in(&server, json!({"key": "alice-key"})).await;
    assert_eq!(ask(&server, &alice, "GET", "/v1/stats").await.status, 200);
    // The same name with another key.
    let other = Key { name: "alice".into(), ..all("carol") };
    server.service.change(toolgate_service::AdmissionRules::new(http(vec![other]), None));
    assert_eq!(ask(&server, &alice, "GET", "/v1/stats").await.refusal(), "401 UNAUTHORIZED");
}

async fn a_session_opens_no_websocket() {
    let server = two_keys().await;
    let (cookie, token) = sign_in(&server, json!({"key": "alice-key"})).await;
    let upgrade = server.ask("GET", "/v1/run/ws").header("Cookie", &cookie).header("X-Toolgate-CSRF", &token);
    let upgrade = upgrade.header("Upgrade", "websocket").header("Sec-WebSocket-Version", "13");
    let answer = upgrade.header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==").send().await;
    assert_eq!(answer.refusal(), "401 UNAUTHORIZED");
}

async fn signing_in_is_for_pages_of_the_service() {
    let server = two_keys().await;
    let body = r#"{"key": "alice-key"}"#;
    let ask = || server.ask("POST", "/page/session");
    assert_eq!(ask().header("Origin", "http://evil.example").json(body).send().await.refusal(), "403 FORBIDDEN");
    assert_eq!(ask().header("Host", "evil.example").json(body).send().await.refusal(), "403 FORBIDDEN");
    assert_eq!(ask().header("Content-Type", "text/plain").body(body).send().await.status, 415);
    assert_eq!(ask().json(r#"{"key": "wrong"}"#).send().await.refusal(), "401 UNAUTHORIZED");
    assert_eq!(ask().json(r#"["alice-key", null]"#).send().await.status, 400, "a list is no object");
    let own = ask().header("Origin", &format!("http://{}", server.at)).json(body).send().await;
    assert!(own.header("set-cookie").is_some_and(|cookie| !cookie.contains("Secure")), "{own:?}");
}

async fn tools_are_those_of_the_caller() {
    let narrow = Key { tools: globs(&["shop.other"]), ..all("carol") };
    let keys = vec![all("alice"), key("bob"), narrow];
    let server = start(Setup { http: http(keys), ..Setup::default() }).await;
    let get = async |key: &str, path: &str| server.ask("GET", path).bearer(key).send().await;
    let listed = get("alice-key", "/v1/tools?query=find+something&limit=5").await.json();
    assert_eq!((&listed["tools"][0]["spelling"], &listed["total"]), (&json!("shop.find"), &json!(2)));
    // A task finds host functions too, as it does for a model; a list of all tools has none.
    let found = get("alice-key", "/v1/tools?query=add+numbers&limit=5").await.json();
    assert!(found["functions"][0]["signature"].as_str().is_some_and(|it| it.starts_with("add(")), "{found}");
    assert_eq!(get("alice-key", "/v1/tools").await.json().get("functions"), None);
    let described = get("alice-key", "/v1/tools/shop/find").await.json();
    assert!(described["inputSchema"].is_object() && described["types"].is_string(), "{described}");
    for (key, total) in [("bob-key", 0), ("carol-key", 0)] {
        assert_eq!(get(key, "/v1/tools").await.json()["total"], total, "{key}");
        assert_eq!(get(key, "/v1/tools?query=find").await.json()["tools"], json!([]), "{key}");
        assert_eq!(get(key, "/v1/tools/shop/find").await.refusal(), "404 NOT_FOUND", "{key}");
        assert_eq!(server.ask("POST", "/v1/backends/shop/restart").bearer(key).body("").send().await.status, 404);
    }
    assert_eq!(get("bob-key", "/v1/backends").await.json()["backends"], json!([]));
    assert_eq!(get("carol-key", "/v1/backends").await.json()["backends"][0]["tools"], 0);
    assert_eq!(get("alice-key", "/v1/tools/shop/%22%3Cimg%3E").await.refusal(), "404 NOT_FOUND");
    for wrong in ["limit=0", "limit=x", "after=x", "page=1", "query=a&query=b"] {
        assert_eq!(get("alice-key", &format!("/v1/tools?{wrong}")).await.status, 400, "{wrong}");
    }
    // The next page begins behind the last tool of this one.
    assert_eq!(get("alice-key", "/v1/tools?after=shop/find").await.json()["tools"], json!([]));
    assert_eq!(get("alice-key", "/v1/tools?after=shop/a").await.json()["tools"][0]["tool"], "find");
}

async fn runs_are_those_of_the_caller() {
    let server = two_keys().await;
    let run = async |key: &str, code: &str| {
        let body = json!({"code": code}).to_string();
        server.ask("POST", "/v1/run").bearer(key).json(&body).send().await.json()
    };
    let get = async |key: &str, path: &str| server.ask("GET", path).bearer(key).send().await;
    let first = run("alice-key", "const found = await shop.find({ what: 'tea' }); return found").await;
    run("alice-key", "return nothing").await;
    run("bob-key", "return 1").await;
    let listed = get("alice-key", "/v1/history").await.json();
    let outcomes: Vec<&Value> = listed["runs"].as_array().expect("runs").iter().map(|run| &run["outcome"]).collect();
    assert_eq!((outcomes, &listed["total"]), (vec![&json!("RUNTIME"), &json!("ok")], &json!(2)));
    assert_eq!(get("alice-key", "/v1/history?outcome=failed").await.json()["total"], 1);
    assert_eq!(get("alice-key", "/v1/history?search=SHOP.f").await.json()["total"], 1);
    assert_eq!(get("alice-key", "/v1/history?door=websocket").await.json()["total"], 0);
    let page = get("alice-key", "/v1/history?limit=1").await.json();
    let rest = get("alice-key", &format!("/v1/history?before={}", page["next"])).await.json();
    assert_eq!(rest["runs"][0]["executionId"], first["executionId"]);
    let path = format!("/v1/history/{}", first["executionId"].as_str().expect("an id"));
    let whole = get("alice-key", &path).await.json();
    assert_eq!(
        (&whole["report"]["value"], &whole["report"]["calls"][0]["name"]),
        (&first["value"], &json!("shop.find"))
    );
    assert!(whole["code"].as_str().is_some_and(|code| code.starts_with("const found")));
    assert_eq!(whole["callStarts"].as_array().map(Vec::len), Some(1));
    assert_eq!(get("bob-key", &path).await.refusal(), "404 NOT_FOUND");
    assert_eq!(get("bob-key", "/v1/history").await.json()["total"], 1);
}

async fn a_program_is_checked_without_a_run() {
    let server = start(Setup::default()).await;
    let checked = server.post("/v1/check", json!({"code": "return await shop.fnd({})"})).await.json();
    assert_eq!((&checked["ok"], &checked["errors"][0]["line"]), (&json!(false), &json!(1)), "{checked}");
    let checked = server.post("/v1/check", json!({"code": "const a = await shop.find({});\nreturn [a]"})).await.json();
    assert_eq!((&checked["ok"], &checked["calls"][0]["name"]), (&json!(true), &json!("shop.find")), "{checked}");
    let call = &checked["calls"][0];
    assert_eq!((&call["backend"], &call["tool"], &call["arguments"]), (&json!("shop"), &json!("find"), &json!({})));
    let unnamed = server.post("/v1/check", json!({"code": "let x: number = 'a'; return x"})).await.json();
    let why = "no tool and no function is named in it";
    assert_eq!((&unnamed["typesChecked"], &unnamed["typesNotChecked"]), (&json!(false), &json!(why)), "{unnamed}");
    let checked = server.post("/v1/check", json!({"code": "{\"tool\": \"shop.nope\"}"})).await.json();
    assert_eq!(
        (&checked["errors"][0]["code"], &checked["path"]),
        (&json!("INVALID_CODE"), &json!("refused")),
        "{checked}"
    );
    assert_eq!(server.post("/v1/check", json!({})).await.refusal(), "400 INVALID_INPUT /code");
    assert_eq!(server.get("/v1/history").await.json()["total"], 0, "nothing ran");
}

async fn counts_rights_and_layers_are_told() {
    let server = two_keys().await;
    server.ask("POST", "/v1/run").bearer("alice-key").json(r#"{"code": "return 1"}"#).send().await;
    let get = async |key: &str, path: &str| server.ask("GET", path).bearer(key).send().await.json();
    let minutes = |stats: Value| stats["minutes"].as_array().map(Vec::len);
    let stats = get("alice-key", "/v1/stats").await;
    assert_eq!((&stats["runs"], minutes(stats.clone())), (&json!(1), Some(1)));
    assert_eq!(minutes(get("bob-key", "/v1/stats").await), Some(0), "another caller's runs");
    let policy = get("bob-key", "/v1/policy").await;
    assert_eq!(
        policy["caller"],
        json!({"name": "bob", "backends": [], "tools": null, "functions": null, "callsPerMinute": null})
    );
    let doctor = get("bob-key", "/v1/doctor").await;
    assert_eq!((&doctor["ok"], &doctor["layers"][0]["name"]), (&json!(true), &json!("process")), "{doctor}");
}

/// Reads a stream until it has this text.
async fn read_until(stream: &mut tokio::net::TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut part = [0; 4096];
    while !text.contains(wanted) {
        let read = stream.read(&mut part).await.expect("readable");
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    text
}

async fn programs_are_checked_a_few_at_a_time() {
    let code = || json!({"code": "const a = await shop.find({});\nreturn [a]"});
    let one = ServiceLimits { checks: 1, ..ServiceLimits::default() };
    let server = start(Setup { service: one, ..Setup::default() }).await;
    let all = futures_util::future::join_all((0..20).map(|_| server.post("/v1/check", code()))).await;
    assert!(all.iter().all(|reply| reply.json()["ok"] == true), "they wait for each other");
    let none = ServiceLimits { checks: 0, check_wait: Duration::from_millis(10), ..ServiceLimits::default() };
    let server = start(Setup { service: none, ..Setup::default() }).await;
    assert_eq!(server.post("/v1/check", code()).await.refusal(), "429 UNAVAILABLE");
}

async fn events_tell_a_caller_of_its_runs() {
    let server = two_keys().await;
    let mut stream = server.ask("GET", "/v1/events").bearer("bob-key").begin().await;
    let head = read_until(&mut stream, "event: begin").await;
    assert!(head.contains("text/event-stream"), "{head}");
    let run = async |key: &str, code: &str| {
        let body = json!({"code": code}).to_string();
        server.ask("POST", "/v1/run").bearer(key).json(&body).send().await.json()["executionId"].clone()
    };
    let other = run("alice-key", "return 1").await;
    let own = run("bob-key", "return '\\n\\nevent: forged\\n'").await;
    let told = read_until(&mut stream, own.as_str().expect("an id")).await;
    assert!(told.contains("event: run") && !told.contains("forged"), "{told}");
    assert!(!told.contains(other.as_str().expect("an id")), "another caller's run: {told}");
    assert_eq!(server.get("/v1/events").await.refusal(), "401 UNAUTHORIZED");
    // The shutdown does not wait for a stream.
    server.shutdown.begin.cancel();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("ended");
}

async fn a_stream_ends_with_the_session_that_opened_it() {
    let server = two_keys().await;
    let (alice, second) =
        (sign_in(&server, json!({"key": "alice-key"})).await, sign_in(&server, json!({"key": "alice-key"})).await);
    let mut streams = Vec::new();
    for (cookie, token) in [&alice, &second] {
        let ask = server.ask("GET", "/v1/events").header("Cookie", cookie).header("X-Toolgate-CSRF", token);
        let mut stream = ask.begin().await;
        read_until(&mut stream, "event: begin").await;
        streams.push(stream);
    }
    assert_eq!(ask(&server, &alice, "DELETE", "/page/session").await.status, 204);
    // At once, and not when a run ends or the stream is looked at again.
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(9), streams[0].read_to_end(&mut rest))
        .await
        .expect("at once")
        .expect("ended");
    let run = server.ask("POST", "/v1/run").bearer("alice-key").json(r#"{"code": "return 1"}"#).send().await;
    read_until(&mut streams[1], run.json()["executionId"].as_str().expect("an id")).await;
}

async fn event_streams_are_bounded() {
    let server = start(Setup::default()).await;
    let mut open = Vec::new();
    for _ in 0..128 {
        let mut stream = server.ask("GET", "/v1/events").begin().await;
        read_until(&mut stream, "event: begin").await;
        open.push(stream);
    }
    assert_eq!(server.get("/v1/events").await.refusal(), "503 UNAVAILABLE");
}
